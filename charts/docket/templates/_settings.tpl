{{/*
The programs' settings. Every flag that the chart sets is in this file and nowhere else, so that renaming a
flag changes one line.
*/}}

{{/* Where the Secrets are mounted. Whole folders, because a file mounted by subPath does not follow its Secret. */}}
{{- define "docket.redisFolder" -}}/etc/docket/redis{{- end -}}
{{- define "docket.smtpFolder" -}}/etc/docket/smtp{{- end -}}
{{- define "docket.caFolder" -}}/etc/docket/ca{{- end -}}
{{- define "docket.databaseFolder" -}}/etc/docket/database-servers/{{- end -}}
{{- define "docket.limitsFolder" -}}/etc/docket/limits{{- end -}}

{{/* The file of tenants' limits; empty if none is set. As int64, since toYaml writes 1e+06 for a million. */}}
{{- define "docket.limits" -}}
{{- $file := dict -}}
{{- range $part := list "defaults" "maxima" -}}
{{- $limits := dict -}}
{{- range $name, $value := index $.Values.limits $part -}}
{{- $_ := set $limits $name (int64 $value) -}}
{{- end -}}
{{- if $limits -}}
{{- $_ := set $file $part $limits -}}
{{- end -}}
{{- end -}}
{{- if $file -}}{{- toYaml $file -}}{{- end -}}
{{- end -}}

{{/* The PostgreSQL servers, as JSON: those of the values, or the one of the quickstart. */}}
{{- define "docket.databaseServers" -}}
{{- if .Values.databaseServers -}}
{{- toJson .Values.databaseServers -}}
{{- else if .Values.quickstart.enabled -}}
{{- $secret := dict "name" (include "docket.quickstart.postgresql" .) "key" "url" -}}
{{- toJson (list (dict "name" .Values.quickstart.serverName "secretRef" $secret)) -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* Whether the pods of a component send deliveries. Takes (dict "root" $ "component" …). */}}
{{- define "docket.delivers" -}}
{{- if or (eq .component "worker") (and (eq .component "api") .root.Values.api.deliver) }}true{{ end -}}
{{- end -}}

{{/* The Secret with the URL of Redis for a component, and the key in it, as JSON. Takes (dict "root" $ "component" …). */}}
{{- define "docket.redisSecret" -}}
{{- $ref := .root.Values.redis.secretRef -}}
{{- /* A pod that delivers needs the rights of a worker. */ -}}
{{- $user := ternary "worker" .component (eq (include "docket.delivers" .) "true") -}}
{{- if $ref.name -}}
{{- toJson (dict "name" $ref.name "key" (get ($ref.keys | default dict) $user | default $ref.key)) -}}
{{- else -}}
{{- toJson (dict "name" (include "docket.quickstart.redis" .root) "key" (printf "url-%s" $user)) -}}
{{- end -}}
{{- end -}}

{{/* Arguments of the operator, as a JSON list. */}}
{{- define "docket.operatorArgs" -}}
{{- $v := .Values.operator -}}
{{- $args := list "run" -}}
{{- $args = append $args (printf "--release-namespace=%s" (include "docket.runtimeNamespace" .)) -}}
{{- range .Values.watch.namespaces -}}
{{- $args = append $args (printf "--watch-namespace=%s" .) -}}
{{- end -}}
{{- range include "docket.databaseServers" . | fromJsonArray -}}
{{- $server := printf "%s=%s%s" .name (include "docket.databaseFolder" $) .name -}}
{{- if .secretRef.key -}}
{{- $server = printf "%s/url" $server -}}
{{- end -}}
{{- range $setting, $value := dict "host" .host "port" .port "dbname" .dbname "sslmode" .sslMode "sslrootcert" .sslRootCert -}}
{{- if $value -}}
{{- $server = printf "%s;%s=%v" $server $setting $value -}}
{{- end -}}
{{- end -}}
{{- with .pooler -}}
{{- $server = printf "%s;pooler=%s:%d" $server .host (int (.port | default 5432)) -}}
{{- end -}}
{{- $args = append $args (printf "--database-server=%s" $server) -}}
{{- end -}}
{{- range .Values.externalDatabases.allow -}}
{{- $args = append $args (printf "--allow-external-database=%s" .) -}}
{{- end -}}
{{- $args = append $args (printf "--redis-url-file=%s/url" (include "docket.redisFolder" .)) -}}
{{- range .Values.disabledEvents -}}
{{- $args = append $args (printf "--disabled-event=%s" .) -}}
{{- end -}}
{{- if include "docket.limits" . -}}
{{- $args = append $args (printf "--tenant-limits=%s/limits.yaml" (include "docket.limitsFolder" .)) -}}
{{- end -}}
{{- $args = append $args (printf "--concurrency=%d" (int $v.concurrency)) -}}
{{- $args = append $args (printf "--migrations-at-once=%d" (int .Values.migrations.atOnce)) -}}
{{- if .Values.migrations.paused -}}
{{- $args = append $args "--pause-migrations" -}}
{{- end -}}
{{- with .Values.migrations.window -}}
{{- $args = append $args (printf "--migration-window=%s" .) -}}
{{- end -}}
{{- /* As long as the workers let deliveries wait for a deleted Webhook, its secret must stay. */ -}}
{{- with .Values.worker.webhookGrace -}}
{{- $args = append $args (printf "--webhook-grace=%s" .) -}}
{{- end -}}
{{- $args = append $args (printf "--lease-duration=%s" $v.leaderElection.leaseDuration) -}}
{{- $args = append $args (printf "--lease-renewal=%s" $v.leaderElection.leaseRenewal) -}}
{{- $args = append $args (printf "--listen=%s:9090" .Values.listenAddress) -}}
{{- $args = append $args (printf "--log=%s" .Values.log.level) -}}
{{- $args = append $args (printf "--log-format=%s" .Values.log.format) -}}
{{- toJson (concat $args $v.extraArgs) -}}
{{- end -}}

{{/* Further settings of Redis, as a JSON list of environment variables. */}}
{{- define "docket.redisEnv" -}}
{{- $env := list -}}
{{- with .Values.redis.release -}}
{{- $env = append $env (dict "name" "DOCKET_REDIS_RELEASE" "value" .) -}}
{{- end -}}
{{- with .Values.privateCA.redisKey -}}
{{- $env = append $env (dict "name" "DOCKET_REDIS_CA_FILE" "value" (printf "%s/%s" (include "docket.caFolder" $) .)) -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* Where a data-plane component finds tenants, their databases and Redis, as a JSON list of environment variables. So a command in its pod, such
     as `kubectl exec deployment/docket-api -- docket customers add …`, needs no flags for them. */}}
{{- define "docket.serveEnv" -}}
{{- $env := list (dict "name" "DOCKET_CONFIG_NAMESPACE" "value" (include "docket.runtimeNamespace" .)) -}}
{{- with .Values.externalDatabases.allow -}}
{{- $env = append $env (dict "name" "DOCKET_ALLOW_EXTERNAL_DATABASE" "value" (join "," .)) -}}
{{- end -}}
{{- $env = append $env (dict "name" "DOCKET_REDIS_URL_FILE" "value" (printf "%s/url" (include "docket.redisFolder" .))) -}}
{{- $pod := dict "fieldRef" (dict "fieldPath" "metadata.name") -}}
{{- $env = append $env (dict "name" "POD_NAME" "valueFrom" $pod) -}}
{{- toJson (concat $env (include "docket.redisEnv" . | fromJsonArray)) -}}
{{- end -}}

{{/* Arguments of a data-plane component, as a JSON list. Takes (dict "root" $ "component" "api"|"worker"|"detector"). */}}
{{- define "docket.serveArgs" -}}
{{- $values := .root.Values -}}
{{- $v := index $values .component -}}
{{- $roles := list .component -}}
{{- $delivers := include "docket.delivers" . -}}
{{- if and (eq .component "api") $delivers -}}
{{- $roles = append $roles "worker" -}}
{{- end -}}
{{- if and (eq .component "api") $values.portal.enabled -}}
{{- $roles = append $roles "portal" -}}
{{- end -}}
{{- $args := list "serve" (printf "--roles=%s" (join "," $roles)) -}}
{{- $args = append $args (printf "--database-connections=%d" (int $v.databaseConnections)) -}}
{{- $args = append $args (printf "--database-connections-per-tenant=%d" (int $v.databaseConnectionsPerTenant)) -}}
{{- /* Every component judges what is declared by the worker's networks: its log, and the portal, name what workers will refuse. */ -}}
{{- range $values.worker.allowEgress -}}
{{- $args = append $args (printf "--allow-egress=%s" .) -}}
{{- end -}}
{{- range $values.networkPolicy.clusterCIDRs -}}
{{- $args = append $args (printf "--deny-egress=%s" .) -}}
{{- end -}}
{{- if eq .component "api" -}}
{{- $args = append $args (printf "--listen=%s:8080" $values.listenAddress) -}}
{{- $args = append $args (printf "--base-domain=%s" $values.baseDomain) -}}
{{- if $values.legacyHost -}}
{{- $args = append $args (printf "--legacy-host=%s" $values.legacyHost) -}}
{{- end -}}
{{- range $v.trustedProxies -}}
{{- $args = append $args (printf "--trusted-proxy=%s" .) -}}
{{- end -}}
{{- if $v.trustedProxies -}}
{{- $args = append $args (printf "--forwarded-header=%s" $v.forwardedHeader) -}}
{{- end -}}
{{- if $v.proxyProtocol -}}
{{- $args = append $args "--proxy-protocol" -}}
{{- end -}}
{{- if $values.portal.declareWebhooks -}}
{{- $args = append $args (printf "--portal-account=%s/%s-portal" (include "docket.namespace" .root) (include "docket.fullname" .root)) -}}
{{- end -}}
{{- if $values.platform.enabled -}}
{{- $args = append $args "--platform" -}}
{{- end -}}
{{- if not $v.docs -}}
{{- $args = append $args "--docs=off" -}}
{{- end -}}
{{- if $v.auditLog -}}
{{- $args = append $args "--audit-log=-" -}}
{{- end -}}
{{- $args = append $args (printf "--shutdown-delay=%s" $v.shutdownDelay) -}}
{{- else if eq .component "detector" -}}
{{- $args = append $args (printf "--invoice-scan-interval=%s" $v.invoiceScanInterval) -}}
{{- $args = append $args (printf "--invoice-max-age=%s" $v.invoiceMaxAge) -}}
{{- end -}}
{{- if $delivers -}}
{{- $args = append $args (printf "--delivery-retention=%s" $values.worker.deliveryRetention) -}}
{{- with $values.worker.webhookGrace -}}
{{- $args = append $args (printf "--webhook-grace=%s" .) -}}
{{- end -}}
{{- with $values.worker.auditRetention -}}
{{- $args = append $args (printf "--audit-retention=%s" .) -}}
{{- end -}}
{{- $args = append $args (printf "--sweep-interval=%s" $values.worker.sweepInterval) -}}
{{- end -}}
{{- if and $values.mail.from (or $delivers (eq .component "api")) -}}
{{- $args = append $args (printf "--mail-from=%s" $values.mail.from) -}}
{{- end -}}
{{- if and $values.mail.from $delivers -}}
{{- $args = append $args (printf "--smtp-url-file=%s/url" (include "docket.smtpFolder" $.root)) -}}
{{- with $values.mail.caKey -}}
{{- $args = append $args (printf "--smtp-ca-file=%s/%s" (include "docket.caFolder" $.root) .) -}}
{{- end -}}
{{- $args = append $args (printf "--portal-url=%s" ($values.mail.portalURL | default (printf "https://{subdomain}.%s" $values.baseDomain))) -}}
{{- end -}}
{{- $args = append $args (printf "--management=%s:9090" $values.listenAddress) -}}
{{- $args = append $args (printf "--log=%s" $values.log.level) -}}
{{- $args = append $args (printf "--log-format=%s" $values.log.format) -}}
{{- toJson (concat $args $v.extraArgs) -}}
{{- end -}}

{{/* Arguments of the pod of `helm test`, as a JSON list: every URL must answer 200. */}}
{{- define "docket.testArgs" -}}
{{- $args := list "healthcheck" "--wait=30s" -}}
{{- range $component := include "docket.components" . | fromJsonArray -}}
{{- $at := dict "root" $ "component" $component -}}
{{- $name := include "docket.componentName" $at -}}
{{- if include "docket.hasPods" $at -}}
{{- $args = append $args (printf "--url=http://%s-management.%s:9090/readyz" $name (include "docket.namespace" $)) -}}
{{- end -}}
{{- end -}}
{{- toJson $args -}}
{{- end -}}
