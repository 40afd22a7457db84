{{/*
Checks that values.schema.json can't express: missing settings, and settings that contradict each other. Each message
begins with the setting's name and says what to set. All are reported at once.
*/}}
{{- define "docket.checks" -}}
{{- $values := .Values -}}
{{- $wrong := list -}}
{{- if not $values.baseDomain -}}
{{- $wrong = append $wrong "baseDomain: set the host name of the API, such as api.example.com; its subdomains select tenants" -}}
{{- end -}}
{{- if and $values.legacyHost (eq $values.legacyHost $values.baseDomain) -}}
{{- $wrong = append $wrong "legacyHost: must not be baseDomain; the older API needs its own host name" -}}
{{- end -}}
{{- if and (not $values.quickstart.enabled) (not $values.databaseServers) -}}
{{- $wrong = append $wrong "databaseServers: set at least one PostgreSQL server, such as [{name: main, secretRef: {name: docket-postgresql, key: url}}]; the Secret's key must contain the URL of a role that may create databases and roles" -}}
{{- end -}}
{{- $names := dict -}}
{{- range $values.databaseServers -}}
{{- if hasKey $names .name -}}
{{- $wrong = append $wrong (printf "databaseServers: the name %s is used twice; each server needs its own name" .name) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- if and .secretRef.key (or .host .port .dbname .sslMode .sslRootCert .certificateSecretRef) -}}
{{- $wrong = append $wrong (printf "databaseServers: the server %s has a URL under secretRef.key, which contains host, port, dbname, sslMode and certificates; write them into the URL, or leave out secretRef.key if the Secret has the keys user, password, host, port and dbname" .name) -}}
{{- end -}}
{{- end -}}
{{- if and (not $values.quickstart.enabled) (not $values.redis.secretRef.name) -}}
{{- $wrong = append $wrong "redis.secretRef.name: set the name of the Secret whose key (redis.secretRef.key) contains the URL of Redis, such as docket-redis" -}}
{{- end -}}
{{- if and $values.quickstart.enabled $values.databaseServers -}}
{{- $wrong = append $wrong "databaseServers: leave it empty with quickstart.enabled, which installs its own PostgreSQL; or set quickstart.enabled to false" -}}
{{- end -}}
{{- if and $values.quickstart.enabled $values.redis.secretRef.name -}}
{{- $wrong = append $wrong "redis.secretRef.name: leave it empty with quickstart.enabled, which installs its own Redis; or set quickstart.enabled to false" -}}
{{- end -}}
{{- if and (not $values.quickstart.enabled) (not $values.runtimeNamespace) -}}
{{- $wrong = append $wrong "runtimeNamespace: set a namespace for the runtime Secrets, such as docket-runtime, and create it first; the data plane may read every Secret in it" -}}
{{- end -}}
{{- if eq $values.runtimeNamespace (include "docket.namespace" .) -}}
{{- $wrong = append $wrong (printf "runtimeNamespace: must not be %s, the namespace of the pods, where the data plane could read the admin URLs of databaseServers; set another one, such as docket-runtime" (include "docket.namespace" .)) -}}
{{- end -}}
{{- if and $values.privateCA.redisKey (not $values.privateCA.configMap) -}}
{{- $wrong = append $wrong "privateCA.configMap: set the ConfigMap that contains privateCA.redisKey, or leave the key empty" -}}
{{- end -}}
{{- if and $values.mail.from (not $values.mail.secretRef.name) -}}
{{- $wrong = append $wrong "mail.secretRef.name: set the name of the Secret whose key (mail.secretRef.key) contains the URL of the SMTP server, such as docket-smtp; or leave mail.from empty" -}}
{{- end -}}
{{- if and $values.mail.secretRef.name (not $values.mail.from) -}}
{{- $wrong = append $wrong "mail.from: set the sender of e-mail, such as docket@example.com; or leave mail.secretRef.name empty" -}}
{{- end -}}
{{- if and $values.mail.from (not $values.portal.enabled) -}}
{{- $wrong = append $wrong "mail.from: needs portal.enabled; people subscribe in the portal, and links in messages lead there" -}}
{{- end -}}
{{- if and $values.mail.caKey (not $values.privateCA.configMap) -}}
{{- $wrong = append $wrong "privateCA.configMap: set the ConfigMap that contains mail.caKey, or leave the key empty" -}}
{{- end -}}
{{- range $component := list "api" "worker" "detector" -}}
{{- $v := index $values $component -}}
{{- if gt (int $v.databaseConnectionsPerTenant) (int $v.databaseConnections) -}}
{{- $wrong = append $wrong (printf "%s.databaseConnectionsPerTenant: must not exceed %s.databaseConnections, which is %d" $component $component (int $v.databaseConnections)) -}}
{{- end -}}
{{- end -}}
{{- $delay := include "docket.seconds" $values.api.shutdownDelay | int64 -}}
{{- if gt (add $delay 25) (int64 $values.api.terminationGracePeriodSeconds) -}}
{{- $wrong = append $wrong (printf "api.terminationGracePeriodSeconds: must be at least %d, which is api.shutdownDelay plus 25 s for requests in flight" (add $delay 25)) -}}
{{- end -}}
{{- range $component := list "worker" "api" -}}
{{- if include "docket.delivers" (dict "root" $ "component" $component) -}}
{{- $v := index $values $component -}}
{{- /* The flags that extraArgs may set, and their defaults. */ -}}
{{- $pause := ternary $values.api.shutdownDelay "5s" (eq $component "api") -}}
{{- $attempt := "30s" -}}
{{- range $v.extraArgs -}}
{{- if hasPrefix "--attempt-timeout=" . -}}
{{- $attempt = trimPrefix "--attempt-timeout=" . -}}
{{- else if hasPrefix "--shutdown-delay=" . -}}
{{- $pause = trimPrefix "--shutdown-delay=" . -}}
{{- end -}}
{{- end -}}
{{- $least := add (include "docket.seconds" $pause | int64) (include "docket.seconds" $attempt | int64) 10 -}}
{{- if gt $least (int64 $v.terminationGracePeriodSeconds) -}}
{{- $wrong = append $wrong (printf "%s.terminationGracePeriodSeconds: must be at least %d: %s until the pod stops, %s for the longest attempt (--attempt-timeout) and 10 s to store its outcome; otherwise each upgrade ends attempts with the failure class WorkerLost" $component $least $pause $attempt) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $connections := include "docket.connections" . | fromJson -}}
{{- $tenant := $connections.tenant -}}
{{- /* Behind a pooler, the size of its pool bounds the sessions of a role. */ -}}
{{- $direct := $values.quickstart.enabled -}}
{{- range $at, $known := $values.databaseServers -}}
{{- $direct = or $direct (not $known.pooler) -}}
{{- range $port := list $known.port (dig "port" 0 ($known.pooler | default dict)) -}}
{{- if and $port $values.networkPolicy.enabled -}}
{{- $open := false -}}
{{- range $values.networkPolicy.postgresql.ports -}}{{- $open = or $open (eq (int .) (int $port)) -}}{{- end -}}
{{- if not $open -}}
{{- $wrong = append $wrong (printf "networkPolicy.postgresql.ports: add %d, the port of server %s or of its pooler; otherwise pods can't connect to it" (int $port) $known.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $direct (gt (int64 $tenant.needed) (int64 $values.connectionLimit)) -}}
{{- $wrong = append $wrong (printf "connectionLimit: the pods may open %d connections with one tenant's role, and it may have %d. The sum, with the pods that an upgrade adds: %s. Lower databaseConnectionsPerTenant, replicas or autoscaling.maxReplicas of api or worker; or set spec.database.managed.connectionLimit of every Tenant, and connectionLimit, to at least %d" (int64 $tenant.needed) (int64 $values.connectionLimit) $tenant.parts (int64 $tenant.needed)) -}}
{{- end -}}
{{- $server := $connections.server -}}
{{- range $at, $known := $values.databaseServers -}}
{{- if and $known.maxConnections (not $known.pooler) (gt (int64 $server.needed) (int64 $known.maxConnections)) -}}
{{- $wrong = append $wrong (printf "databaseServers[%d].maxConnections: the pods may open %d connections to server %s, and it takes %d. The sum, with the pods that an upgrade adds: %s. Lower databaseConnections, replicas or autoscaling.maxReplicas of api or worker; or raise max_connections of the server, and maxConnections, to at least %d and what other programs need" $at (int64 $server.needed) $known.name (int64 $known.maxConnections) $server.parts (int64 $server.needed)) -}}
{{- end -}}
{{- end -}}
{{- $lease := $values.operator.leaderElection -}}
{{- if lt (include "docket.seconds" $lease.leaseDuration | int64) 5 -}}
{{- $wrong = append $wrong "operator.leaderElection.leaseDuration: must be at least 5s" -}}
{{- end -}}
{{- if ge (include "docket.seconds" $lease.leaseRenewal | int64 | mul 2) (include "docket.seconds" $lease.leaseDuration | int64) -}}
{{- $wrong = append $wrong (printf "operator.leaderElection.leaseRenewal: must be less than half of operator.leaderElection.leaseDuration, which is %s" $lease.leaseDuration) -}}
{{- end -}}
{{- if and (hasKey $values "enabled") .Chart.IsRoot -}}
{{- $wrong = append $wrong "enabled: leave it out; only the condition of a parent chart reads it" -}}
{{- end -}}
{{- if and $values.namespaceOverride $values.quickstart.enabled -}}
{{- $wrong = append $wrong "namespaceOverride: leave it empty with quickstart.enabled, whose PostgreSQL and Redis are in the release's namespace" -}}
{{- end -}}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) -}}
{{- $wrong = append $wrong "httpRoute.parentRefs: set the Gateway, such as [{name: public, namespace: gateways}]" -}}
{{- end -}}
{{- if and $values.portal.declareWebhooks (not $values.portal.enabled) -}}
{{- $wrong = append $wrong "portal.declareWebhooks: needs portal.enabled" -}}
{{- end -}}
{{- if and $values.api.proxyProtocol (not $values.api.trustedProxies) -}}
{{- $wrong = append $wrong "api.proxyProtocol: needs api.trustedProxies, the networks of the load balancer" -}}
{{- end -}}
{{- range $values.api.trustedProxies -}}
{{- if lt (splitList "/" . | last | int) (ternary 7 8 (contains ":" .)) -}}
{{- $wrong = append $wrong (printf "api.trustedProxies: leave out %s, or name a network of proxies alone, such as 10.244.0.0/16, of at least 8 bits, over IPv6 7; clients in it could give themselves any address" .) -}}
{{- end -}}
{{- end -}}
{{- $service := $values.api.service -}}
{{- $isExposed := ne $service.type "ClusterIP" -}}
{{- range $field := list "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if and (index $service $field) (ne $service.type "LoadBalancer") -}}
{{- $wrong = append $wrong (printf "api.service.%s: needs api.service.type LoadBalancer" $field) -}}
{{- end -}}
{{- end -}}
{{- if and (eq (len $service.ipFamilies) 2) (not (has $service.ipFamilyPolicy (list "PreferDualStack" "RequireDualStack"))) -}}
{{- $wrong = append $wrong "api.service.ipFamilies: two families need api.service.ipFamilyPolicy PreferDualStack or RequireDualStack" -}}
{{- end -}}
{{- if and $service.externalTrafficPolicy (not $isExposed) -}}
{{- $wrong = append $wrong "api.service.externalTrafficPolicy: needs api.service.type LoadBalancer or NodePort" -}}
{{- end -}}
{{- if and $isExposed (ne $service.externalTrafficPolicy "Local") (not $values.api.trustedProxies) (not $values.api.trustNoProxies) -}}
{{- $wrong = append $wrong (printf "api.service.externalTrafficPolicy: set it to Local, so that connections keep the clients' addresses; with type %s, nodes otherwise forward connections with their own addresses, all clients behind a node count as one, and the wrong passwords of one client close sign-in for others. Behind a proxy, set api.trustedProxies. If that is meant, set api.trustNoProxies to true" $service.type) -}}
{{- end -}}
{{- $exposing := list -}}
{{- range $way := list "ingress" "httpRoute" -}}
{{- if (index $values $way).enabled -}}
{{- $exposing = append $exposing (printf "%s.enabled" $way) -}}
{{- end -}}
{{- end -}}
{{- if and $exposing (not $values.api.trustedProxies) (not $values.api.trustNoProxies) -}}
{{- $wrong = append $wrong (printf "api.trustedProxies: set the networks of the proxies that %s %s, such as that of the ingress controller's pods, [10.244.0.0/16]; otherwise all clients count as one, and the wrong passwords of one client close sign-in for others. If that is meant, set api.trustNoProxies to true" (join " and " $exposing) (ternary "uses" "use" (eq (len $exposing) 1))) -}}
{{- end -}}
{{- if and $values.api.trustedProxies $values.api.trustNoProxies -}}
{{- $wrong = append $wrong "api.trustNoProxies: set it to false, or leave api.trustedProxies empty" -}}
{{- end -}}
{{- range $values.worker.allowEgress -}}
{{- if include "docket.isMetadataService" . -}}
{{- $wrong = append $wrong (printf "worker.allowEgress: leave out %s, a metadata service of a cloud, which hands out credentials; deliveries never reach it" .) -}}
{{- end -}}
{{- end -}}
{{- range $server := list "postgresql" "redis" "smtp" "apiServer" -}}
{{- range (index $values.networkPolicy $server).to -}}
{{- with .ipBlock -}}
{{- if include "docket.isMetadataService" .cidr -}}
{{- $wrong = append $wrong (printf "networkPolicy.%s.to: leave out %s, a metadata service of a cloud, which hands out credentials" $server .cidr) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $limit, $default := $values.limits.defaults -}}
{{- if hasKey $values.limits.maxima $limit -}}
{{- $most := index $values.limits.maxima $limit | int64 -}}
{{- if gt (int64 $default) $most -}}
{{- $wrong = append $wrong (printf "limits.defaults.%s: must not exceed limits.maxima.%s, which is %d" $limit $limit $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $values.ingress.tls.legacySecretName (not $values.legacyHost) -}}
{{- $wrong = append $wrong "ingress.tls.legacySecretName: legacyHost is not set; set it, or leave the Secret's name empty" -}}
{{- end -}}
{{- range $component := list "api" "worker" -}}
{{- $scaling := (index $values $component).autoscaling -}}
{{- if and $scaling.enabled $scaling.external -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.external: set it to false, or set %s.autoscaling.enabled to false; two autoscalers would set the number of pods in turn" $component $component) -}}
{{- end -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.minReplicas: must not exceed %s.autoscaling.maxReplicas, which is %d" $component $component (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled $values.podMonitor.enabled -}}
{{- $wrong = append $wrong "podMonitor.enabled: set it to false, or set serviceMonitor.enabled to false; with both, each pod would be scraped twice" -}}
{{- end -}}
{{- $labels := dict "commonLabels" $values.commonLabels -}}
{{- range $component := include "docket.components" . | fromJsonArray -}}
{{- $_ := set $labels (printf "%s.podLabels" $component) (index $values $component).podLabels -}}
{{- end -}}
{{- range $setting, $given := $labels -}}
{{- range $label, $_ := $given -}}
{{- if regexMatch "^(app\\.kubernetes\\.io/(name|instance|component|version|part-of|managed-by)|helm\\.sh/chart)$" $label -}}
{{- $wrong = append $wrong (printf "%s: leave out %s, by which the chart selects its own pods" $setting $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $accounts := dict -}}
{{- range $component := include "docket.components" . | fromJsonArray -}}
{{- $account := (index $values $component).serviceAccount -}}
{{- if $account.create -}}
{{- $name := include "docket.serviceAccountName" (dict "root" $ "component" $component) -}}
{{- if hasKey $accounts $name -}}
{{- $wrong = append $wrong (printf "%s.serviceAccount.name: %s is already created for %s; set another name, or set %s.serviceAccount.create to false" $component $name (get $accounts $name) $component) -}}
{{- end -}}
{{- $_ := set $accounts $name $component -}}
{{- end -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- $wrong = append $wrong (printf "%s.serviceAccount.name: set the name of an existing ServiceAccount, or set %s.serviceAccount.create to true" $component $component) -}}
{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n\nChange these values:\n  - %s\n" (join "\n  - " $wrong)) -}}
{{- end -}}
{{- end -}}
