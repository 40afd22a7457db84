{{/* Names and labels. Names leave room for the longest suffix, `-quickstart-postgresql`, within 63 characters. */}}

{{- define "docket.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "docket.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "docket.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "docket.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The namespace of the pods, and of the Secrets with the URLs of the stores. */}}
{{- define "docket.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* For objects without a namespace: two releases of one name in two namespaces do not conflict. */}}
{{- define "docket.clusterName" -}}
{{- printf "%s-%s" (include "docket.namespace" .) (include "docket.fullname" .) -}}
{{- end -}}

{{/* Where the operator's Lease and the tenants' runtime Secrets are: never where admin URLs are. The quickstart makes its own. */}}
{{- define "docket.runtimeNamespace" -}}
{{- $namespace := (include "docket.namespace" .) -}}
{{- if gt (len $namespace) 55 -}}
{{- $namespace = printf "%s-%s" (trunc 46 $namespace) (sha256sum $namespace | trunc 8) -}}
{{- end -}}
{{- .Values.runtimeNamespace | default (printf "%s-runtime" $namespace) -}}
{{- end -}}

{{/* Labels that select pods; they must never change. Takes (dict "root" $ "component" …). */}}
{{- define "docket.selector" -}}
app.kubernetes.io/name: {{ include "docket.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of every object. Takes (dict "root" $ "component" …). */}}
{{- define "docket.labels" -}}
{{ include "docket.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: docket
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object, without `metadata:`. Takes root, component, name; annotations; cluster for no namespace. */}}
{{- define "docket.metadata" -}}
name: {{ .name | quote }}
{{- if not .cluster }}
namespace: {{ .namespace | default (include "docket.namespace" .root) | quote }}
{{- end }}
labels:
  {{- include "docket.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "docket.componentName" -}}
{{ include "docket.fullname" .root }}-{{ .component }}
{{- end -}}

{{- define "docket.serviceAccountName" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.create -}}
{{- $account.name | default (include "docket.componentName" .) -}}
{{- else -}}
{{- $account.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "docket.image" -}}
{{- $image := .Values.image -}}
{{- $repository := include "docket.inRegistry" (dict "root" $ "image" $image.repository) -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The name of an image in global.imageRegistry, in place of the registry that it names. Takes root and image. */}}
{{- define "docket.inRegistry" -}}
{{- $parts := splitList "/" .image -}}
{{- with .root.Values.global.imageRegistry -}}
{{- if and (gt (len $parts) 1) (regexMatch "[.:]|^localhost$" (first $parts)) -}}
{{- $parts = rest $parts -}}
{{- end -}}
{{- $parts = prepend $parts (trimSuffix "/" .) -}}
{{- end -}}
{{- join "/" $parts -}}
{{- end -}}

{{/* The Secrets with the registries' credentials, as a JSON list: those of the parent chart and those of the values. */}}
{{- define "docket.pullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) .Values.image.pullSecrets -}}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- uniq $secrets | toJson -}}
{{- end -}}

{{/* The components with pods, in the order of the documentation. */}}
{{- define "docket.components" -}}
["operator", "api", "worker", "detector"]
{{- end -}}

{{/* Whether a component has an autoscaler, the chart's or another one. */}}
{{- define "docket.autoscaled" -}}
{{- $scaling := dig "autoscaling" dict (index .root.Values .component) -}}
{{- if or $scaling.enabled $scaling.external }}true{{ end -}}
{{- end -}}

{{/* Whether a component has pods. Takes (dict "root" $ "component" …). */}}
{{- define "docket.hasPods" -}}
{{- if or (gt (int (index .root.Values .component).replicas) 0) (include "docket.autoscaled" .) }}true{{ end -}}
{{- end -}}

{{/* A duration in whole seconds, rounded up: `500ms`, `30s`, `5m` or `1h`. */}}
{{- define "docket.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- if hasSuffix "ms" . -}}
{{- div (add $number 999) 1000 -}}
{{- else if hasSuffix "m" . -}}
{{- mul $number 60 -}}
{{- else if hasSuffix "h" . -}}
{{- mul $number 3600 -}}
{{- else -}}
{{- $number -}}
{{- end -}}
{{- end -}}
