{{/*
How many connections to PostgreSQL the pods may open. An upgrade adds pods before it removes others (maxSurge), and an autoscaler
runs up to maxReplicas, so both count.
*/}}

{{/* The most pods of a component at a time, as JSON: pods, and surge, which an upgrade adds. Takes root and component. */}}
{{- define "docket.mostPods" -}}
{{- $v := index .root.Values .component -}}
{{- $pods := int64 $v.replicas -}}
{{- if include "docket.autoscaled" . -}}
{{- $pods = int64 $v.autoscaling.maxReplicas -}}
{{- end -}}
{{- $surge := int64 0 -}}
{{- if and (gt $pods 0) (ne (dig "type" "RollingUpdate" $v.strategy) "Recreate") -}}
{{- $most := dig "rollingUpdate" "maxSurge" "25%" $v.strategy | toString -}}
{{- $surge = trimSuffix "%" $most | int64 -}}
{{- if hasSuffix "%" $most -}}
{{- $surge = div (add (mul $pods $surge) 99) 100 -}}
{{- end -}}
{{- end -}}
{{- dict "pods" $pods "surge" $surge | toJson -}}
{{- end -}}

{{/*
The sums, as JSON: of the connections with one tenant's role (`tenant`) and of those to one server (`server`), each with `needed` and
`parts`, how it comes about. Each pod that delivers or detects has one more connection, of the server's watcher. The operator has one
with the tenant's role, and 8 with that of the administrator.
*/}}
{{- define "docket.connections" -}}
{{- $tenant := dict "needed" 1 "parts" (list) -}}
{{- $server := dict "needed" 8 "parts" (list) -}}
{{- range $component := list "api" "worker" "detector" -}}
{{- $at := dict "root" $ "component" $component -}}
{{- $v := index $.Values $component -}}
{{- $most := include "docket.mostPods" $at | fromJson -}}
{{- $pods := add (int64 $most.pods) (int64 $most.surge) -}}
{{- $all := int64 $v.databaseConnections -}}
{{- if or (eq $component "detector") (include "docket.delivers" $at) -}}
{{- $all = add $all 1 -}}
{{- end -}}
{{- range $sum, $each := dict "tenant" (int64 $v.databaseConnectionsPerTenant) "server" $all -}}
{{- $of := ternary $tenant $server (eq $sum "tenant") -}}
{{- $_ := set $of "needed" (add $of.needed (mul $pods $each)) -}}
{{- $_ := set $of "parts" (append $of.parts (printf "%s %d times %d" $component $pods $each)) -}}
{{- end -}}
{{- end -}}
{{- range $of, $own := dict "tenant" 1 "server" 8 -}}
{{- $of := ternary $tenant $server (eq $of "tenant") -}}
{{- $_ := set $of "parts" (append $of.parts (printf "operator %d" $own) | join ", ") -}}
{{- end -}}
{{- dict "tenant" $tenant "server" $server | toJson -}}
{{- end -}}
