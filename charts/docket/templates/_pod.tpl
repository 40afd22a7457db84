{{/* One Deployment. Takes root, component, command ("docket" or "docket-operator"), args and env (lists). */}}
{{- define "docket.deployment" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $v := index $values .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "docket.metadata" (merge (dict "name" (include "docket.componentName" .)) .) | nindent 2 }}
spec:
  {{- if not (include "docket.autoscaled" .) }}
  replicas: {{ $v.replicas }}
  {{- end }}
  revisionHistoryLimit: {{ $values.revisionHistoryLimit }}
  {{- with $v.strategy }}
  strategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "docket.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "docket.labels" . | nindent 8 }}
        {{- with $v.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        {{- $limits := "" }}
        {{- if eq .component "operator" }}
        {{- $limits = include "docket.limits" $root }}
        {{- end }}
        {{- with $limits }}
        checksum/limits: {{ sha256sum . }}
        {{- end }}
        {{- with merge (dict) $v.podAnnotations $values.commonAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "docket.serviceAccountName" . | quote }}
      automountServiceAccountToken: true   # it watches the API server
      enableServiceLinks: false
      {{- with include "docket.pullSecrets" $root | fromJsonArray }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml $values.podSecurityContext | nindent 8 }}
      terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
      {{- with $v.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- with $v.runtimeClassName }}
      runtimeClassName: {{ . | quote }}
      {{- end }}
      {{- with $v.schedulerName }}
      schedulerName: {{ . | quote }}
      {{- end }}
      {{- with $v.dnsPolicy }}
      dnsPolicy: {{ . }}
      {{- end }}
      {{- with $v.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.hostAliases }}
      hostAliases:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        {{- /* A constraint without labelSelector selects this component's pods. */}}
        {{- $own := dict "labelSelector" (dict "matchLabels" (include "docket.selector" $ | fromYaml)) }}
        {{- $constraint := . }}
        {{- if not (hasKey . "labelSelector") }}
        {{- $constraint = merge $own . }}
        {{- end }}
        {{- toYaml (list $constraint) | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with $v.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "docket.image" $root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [{{ .command | quote }}]
          args:
            {{- toYaml .args | nindent 12 }}
          {{- with concat .env $v.extraEnv }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            {{- if eq .component "api" }}
            - {name: http, containerPort: 8080}
            {{- end }}
            - {name: management, containerPort: 9090}
          startupProbe:
            {{- toYaml (merge (dict "httpGet" (dict "path" "/healthz" "port" "management")) $v.startupProbe) | nindent 12 }}
          livenessProbe:
            {{- toYaml (merge (dict "httpGet" (dict "path" "/healthz" "port" "management")) $v.livenessProbe) | nindent 12 }}
          readinessProbe:
            {{- toYaml (merge (dict "httpGet" (dict "path" "/readyz" "port" "management")) $v.readinessProbe) | nindent 12 }}
          {{- with $v.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- toYaml $values.securityContext | nindent 12 }}
          volumeMounts:
            - {name: redis, mountPath: {{ include "docket.redisFolder" $root }}, readOnly: true}
            {{- $smtp := and (include "docket.delivers" .) $values.mail.from }}
            {{- if $smtp }}
            - {name: smtp, mountPath: {{ include "docket.smtpFolder" $root }}, readOnly: true}
            {{- end }}
            {{- if eq .component "operator" }}
            {{- range include "docket.databaseServers" $root | fromJsonArray }}
            - {name: database-{{ .name }}, mountPath: {{ include "docket.databaseFolder" $root }}{{ .name }}, readOnly: true}
            {{- end }}
            {{- end }}
            {{- if $limits }}
            - {name: limits, mountPath: {{ include "docket.limitsFolder" $root }}, readOnly: true}
            {{- end }}
            {{- if $values.privateCA.configMap }}
            - {name: ca, mountPath: {{ include "docket.caFolder" $root }}, readOnly: true}
            {{- end }}
            {{- with $v.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with $v.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        {{- $redis := include "docket.redisSecret" . | fromJson }}
        - name: redis
          secret:
            secretName: {{ $redis.name | quote }}
            items: [{key: {{ $redis.key | quote }}, path: url}]
        {{- if $smtp }}
        - name: smtp
          secret:
            secretName: {{ $values.mail.secretRef.name | quote }}
            items: [{key: {{ $values.mail.secretRef.key | quote }}, path: url}]
        {{- end }}
        {{- if eq .component "operator" }}
        {{- range include "docket.databaseServers" $root | fromJsonArray }}
        - name: database-{{ .name }}
          {{- if .secretRef.key }}
          secret:
            secretName: {{ .secretRef.name | quote }}
            items: [{key: {{ .secretRef.key | quote }}, path: url}]
          {{- else }}
          projected:
            sources:
              - secret: {name: {{ .secretRef.name | quote }}}
              {{- with .certificateSecretRef }}
              # Its other keys, such as the authority's private key, stay outside of the pod.
              - secret:
                  name: {{ .name | quote }}
                  optional: true
                  items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}, {key: ca.crt, path: ca.crt}]
              {{- end }}
          {{- end }}
        {{- end }}
        {{- end }}
        {{- if $limits }}
        - name: limits
          configMap: {name: {{ include "docket.componentName" (dict "root" $root "component" "limits") }}}
        {{- end }}
        {{- with $values.privateCA.configMap }}
        - name: ca
          configMap: {name: {{ . | quote }}}
        {{- end }}
        {{- with $v.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
