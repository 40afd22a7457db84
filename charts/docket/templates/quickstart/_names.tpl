{{- define "docket.quickstart.postgresql" -}}
{{ include "docket.fullname" . }}-quickstart-postgresql
{{- end -}}

{{- define "docket.quickstart.redis" -}}
{{ include "docket.fullname" . }}-quickstart-redis
{{- end -}}

{{/* A name other than the chart's, so that none of its selectors matches these pods. Takes root and name. */}}
{{- define "docket.quickstart.selector" -}}
app.kubernetes.io/name: quickstart-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end -}}

{{/* Takes root, name ("postgresql" or "redis") and objectName. */}}
{{- define "docket.quickstart.metadata" -}}
name: {{ .objectName | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "docket.quickstart.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: docket
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  docket.dev/purpose: for trying out, not for production
  {{- with .root.Values.commonAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A password that is generated once: the one in the Secret, or a new one. Takes root, secret and key. */}}
{{- define "docket.quickstart.password" -}}
{{- $there := lookup "v1" "Secret" .root.Release.Namespace .secret -}}
{{- $value := dig "data" .key "" ($there | default dict) -}}
{{- if $value -}}
{{- $value | b64dec -}}
{{- else -}}
{{- randAlphaNum 32 -}}
{{- end -}}
{{- end -}}

{{/* The pod spec both share. Takes root, name, settings (of the values), port, args, mounts and volumes (JSON lists). */}}
{{- define "docket.quickstart.deployment" -}}
{{- $v := .settings -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "docket.quickstart.metadata" . | nindent 2 }}
spec:
  replicas: 1
  revisionHistoryLimit: 1
  strategy: {type: Recreate}
  selector:
    matchLabels:
      {{- include "docket.quickstart.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "docket.quickstart.selector" . | nindent 8 }}
      {{- with .podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with include "docket.pullSecrets" .root | fromJsonArray }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- /* OpenShift gives each namespace its own users, and refuses a pod that names another one. */}}
      {{- $own := dict }}
      {{- if not (.root.Capabilities.APIVersions.Has "security.openshift.io/v1") }}
      {{- $own = dict "runAsUser" $v.runAsUser "runAsGroup" $v.runAsUser "fsGroup" $v.runAsUser }}
      {{- end }}
      securityContext:
        {{- toYaml (merge $own .root.Values.podSecurityContext) | nindent 8 }}
      containers:
        - name: {{ .name }}
          image: {{ include "docket.inRegistry" (dict "root" .root "image" $v.image) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          {{- with $v.command }}
          command:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          args:
            {{- toYaml .args | nindent 12 }}
          {{- with .env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - {name: {{ .name }}, containerPort: {{ .port }}}
          readinessProbe:
            tcpSocket: {port: {{ .name }}}
            periodSeconds: 2
          {{- with $v.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- toYaml .root.Values.securityContext | nindent 12 }}
          volumeMounts:
            {{- toYaml .mounts | nindent 12 }}
      volumes:
        {{- toYaml .volumes | nindent 8 }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "docket.quickstart.metadata" . | nindent 2 }}
spec:
  selector:
    {{- include "docket.quickstart.selector" . | nindent 4 }}
  ports:
    - {name: {{ .name }}, port: {{ .port }}, targetPort: {{ .name }}}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "docket.quickstart.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "docket.quickstart.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - ports: [{protocol: TCP, port: {{ .name }}}]
      from:
        - podSelector:
            matchLabels:
              app.kubernetes.io/name: {{ include "docket.name" .root | quote }}
              app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end }}
{{- end -}}
