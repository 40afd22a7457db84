# The steps of e2e: functions that are sourced there, and use its $here, $work, $base, $node_address.

# Runs the blocks of a page that are marked `sh cluster`, and compares what they print with what the page shows. All pages run
# in one folder, so that one reads what another has written there.
page() {
    cargo build --quiet --locked --workspace --bin page
    mkdir -p "$work/pages"
    cp -r charts examples "$work/pages"
    (cd "$work/pages" && "$root/target/debug/page" "$root/$1" cluster)
}

# The first block of a page that is marked `sh cluster`.
first_block() {
    awk '/^```/ { if (inside) exit; inside = $0 == "```sh cluster"; next } inside' "$1"
}

import_images() {
    local name
    for name in postgres redis; do
        "$here/images/build" "$name" "$work/$name.tar"
    done
    "$here/node" import "$work"/*.tar
    rm "$work"/*.tar
}

# Debian's nginx beside the kubelet stands in for an ingress controller.
start_ingress() {
    mkdir -p "$work/nginx"
    cat >"$work/nginx/nginx.conf" <<END
pid $work/nginx/pid;
error_log $work/nginx/log;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path $work/nginx/body;
    proxy_temp_path $work/nginx/proxy;
    fastcgi_temp_path $work/nginx/fastcgi;
    uwsgi_temp_path $work/nginx/uwsgi;
    scgi_temp_path $work/nginx/scgi;
    resolver 10.96.0.10 valid=1s ipv6=off;
    server {
        listen $node_address:80;
        location / {
            # A variable: the name is looked up again when the Service was made again.
            set \$service docket-api.docket.svc.cluster.local;
            proxy_pass http://\$service;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host \$host;
            proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto https;
        }
    }
}
END
    # nginx's workers run as another user and need the folder.
    chmod 755 "$work" && chmod 777 "$work/nginx"
    "$here/node" exec nginx -e "$work/nginx/log" -c "$work/nginx/nginx.conf"
    until_true 20 answers_at_all
}

answers_at_all() { curl --silent --output /dev/null --max-time 2 "http://$node_address/"; }

# until_true <seconds> <command> …
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "waited long enough for: $*"; return 1; }
        sleep 0.3
    done
}

# The values of the second installation.
chart_values() { echo "--namespace docket --create-namespace --wait --timeout 4m --set baseDomain=$base"; }

# Every pod has to meet the strictest of the Pod Security Standards.
make_namespace() {
    kubectl create namespace docket
    kubectl label namespace docket pod-security.kubernetes.io/enforce=restricted
}

# As README.md and the page show it: no registry can be asked here, so PostgreSQL and Redis are those of this machine.
quickstart() {
    make_namespace
    # The registry beside the node has no TLS.
    helm() {
        on_node helm "$@" --plain-http --timeout 4m \
            --set quickstart.postgresql.image=docket.test/postgres:1 --set quickstart.redis.image=docket.test/redis:1
    }
    export here REGISTRY=$node_registry
    export -f helm on_node   # the page runs in a bash of its own
    [ -n "$(first_block README.md)" ]
    [ "$(first_block README.md)" = "$(first_block docs/start/kubernetes.md)" ] ||
        { echo "docs/start/kubernetes.md shows other commands than README.md"; return 1; }
    page docs/start/kubernetes.md
    pods_run_the_digest
    examples_ready
    ! may api docket docket-quickstart-postgresql || return 1
}

# The pages of docs/kubernetes with blocks that are run, in their order: the first creates the tenant `northwind` that the
# others change, and the last removes it.
pages="install tenant webhook portal rotate-api-key rotate-signing-secret rotate-database-password rotate-store-urls
    several-servers suspend rbac network monitor scale upgrade backup restore move recovery after-a-leak uninstall"

every_page_is_run() {
    # shellcheck disable=SC2086
    diff <(grep -l '^```sh cluster$' docs/kubernetes/*.md | xargs -n 1 basename -s .md | sort) <(printf '%s\n' $pages | sort)
    [ "$(grep -rlE '^ *```sh cluster$' docs --include '*.md' | grep -v '^docs/kubernetes/')" = docs/start/kubernetes.md ]
}

page_network() {
    page docs/kubernetes/network.md
    kubectl get endpointslices kubernetes --namespace default | grep -q "$node_address"
}

page_scale() {
    page docs/kubernetes/scale.md
    [ "$(kubectl -n docket get deployment docket-worker -o jsonpath='{.status.readyReplicas}')" -eq 3 ]
}

# As after the loss of the Tenant: Kubernetes removes its Secrets too.
page_restore() {
    kubectl --namespace tenants delete tenant northwind --timeout 1m
    page docs/kubernetes/restore.md
    sql postgres 'SELECT datname FROM pg_database' | grep -x tenant_northwind
    # The keys are those of before.
    [ "$(kubectl -n tenants get events --field-selector reason=SecretRemade -o name | wc -l)" -eq 0 ]
}

# The programs that an administrator of PostgreSQL has, for a page. They run beside the server.
with_postgresql() {
    psql() { kubectl --namespace stores exec --stdin deployment/postgres -- psql "$@"; }
    pg_dumpall() { kubectl --namespace stores exec deployment/postgres -- pg_dumpall "$@"; }
    export POSTGRESQL_HOST=127.0.0.1:5432
    export POSTGRESQL_URL=postgres://postgres:a-password-for-the-server@$POSTGRESQL_HOST/postgres
    export -f psql pg_dumpall
    "$@"
}

save_at_acme() { call "acme.$base" /Orders/Save "$order" -H "Authorization: Bearer $(token)"; }

# A delivery is queued in the backup, and sent after it. After the recovery it is sent again.
page_backup() {
    local before
    kubectl -n docket scale deployment docket-worker --replicas=0
    kubectl -n docket wait --for=delete pod -l app.kubernetes.io/component=worker --timeout=2m
    before=$(received_once)
    save_at_acme
    with_postgresql page docs/kubernetes/backup.md
    kubectl -n docket scale deployment docket-worker --replicas=2
    until_true 60 received_more_than "$before"
}

seen_before() { kubectl -n receiver logs deployment/receiver --tail=-1 | grep -c 'order\.created.* → 200 .*seen before'; }
seen_more_often_than() { [ "$(seen_before)" -gt "$1" ]; }

# Nothing is left of the release, of its runtime namespace, of the objects, of what the operator generated, and of the data of
# the stores. The namespaces and the users' own Secrets stay, as Git has them.
lose_the_cluster() {
    helm uninstall docket --namespace docket --wait --timeout 2m
    kubectl delete tenants,webhooks --all --all-namespaces --timeout 1m
    kubectl delete secrets --all-namespaces --selector app.kubernetes.io/managed-by=docket-operator
    kubectl delete namespace docket-runtime --timeout=1m
    # Their volumes end with their pods: PostgreSQL begins with an empty folder.
    kubectl -n stores rollout restart deployment/postgres deployment/redis
    kubectl -n stores rollout status deployment/postgres deployment/redis --timeout=2m
    ! sql postgres 'SELECT datname FROM pg_database' | grep '^tenant_' || return 1
}

page_recovery() {
    local lost later
    lost=$(save_at_acme | field webOrderId)
    seen_before >"$work/seen-before" || true   # grep -c fails at 0
    lose_the_cluster
    # The page's shell is another one, in another folder.
    helm() { (cd "$root" && from_registry "$1"); }
    export here root base node_registry REGISTRY=$node_registry PATH=$work/plugin:$PATH
    export -f helm from_registry chart_values on_node
    with_postgresql page docs/kubernetes/recovery.md
    [ "$(kubectl get events --all-namespaces --field-selector reason=SecretRemade -o name | wc -l)" -eq 0 ]
    [ "$(sql tenant_acme "SELECT count(*) FROM web_order WHERE id = '$lost'")" = 0 ]
    # The number of the lost order is given to no other.
    later=$(save_at_acme | field webOrderId)
    [[ $later > $lost ]]
}

queued_is_sent_again() { until_true 90 seen_more_often_than "$(cat "$work/seen-before")"; }

page_after-a-leak() {
    local before after
    before=$(secret_value acme-apikey-primary/api-key)
    with_postgresql page docs/kubernetes/after-a-leak.md
    after=$(secret_value acme-apikey-primary/api-key)
    [ "$before" != "$after" ]
    # A pod may serve the tenant a moment later than the operator has written its Secret.
    until_true 40 order_through_ingress
}

page_uninstall() {
    page docs/kubernetes/uninstall.md
    ! sql postgres 'SELECT datname FROM pg_database' | grep -x tenant_northwind || return 1
}

# may <component> <namespace> <secret>
may() {
    kubectl -n "$2" get secret "$3" --as "system:serviceaccount:docket:docket-$1" -o name
}

rights_hold() {
    local secret component
    secret=$(kubectl -n docket-runtime get secrets -l docket.dev/runtime -o jsonpath='{.items[0].metadata.name}')
    for component in api worker detector; do
        may "$component" docket-runtime "$secret"
        ! may "$component" docket postgresql || return 1
    done
}

uninstall_quickstart() {
    helm uninstall docket --namespace docket --wait --timeout 2m
    kubectl get crd tenants.docket.dev webhooks.docket.dev
    [ "$(kubectl get tenants -o name | wc -l)" -eq 2 ]
    [ "$(kubectl get webhooks -o name | wc -l)" -eq 3 ]
    # The trial has ended and its database is gone. Deleting these must not hang without an operator.
    kubectl delete deployment/receiver service/receiver secret/receiver configmap/receiver-ca
    kubectl delete -f examples/acme.yaml -f examples/globex.yaml --timeout=30s
    kubectl delete namespace docket-runtime --timeout=1m
}

install() {
    kubectl apply -f "$here/stores.yaml"
    kubectl -n stores rollout status deployment/postgres deployment/redis --timeout=2m
    kubectl -n docket apply -f "$here/stores-secrets.yaml"
    kubectl create namespace docket-runtime
    install_previous
}

apply_examples() {
    kubectl apply -f examples/acme.yaml -f examples/globex.yaml
    examples_ready
}

examples_ready() {
    kubectl wait --for=condition=Ready tenants,webhooks --all --timeout=2m
}

both_databases() { sql postgres 'SELECT datname FROM pg_database' | grep -cxE 'tenant_(acme|globex)' | grep -qx 2; }

docket_command() { kubectl -n docket exec -i deployment/docket-api -- docket "$@"; }

add_people() {
    docket_command customer add --tenant ACME --code C-1001 --name "Quillfeather and Lodestar"
    echo a-password-for-tests | docket_command contact add --tenant ACME --customer C-1001 \
        --email ada@quillfeather.example --name "Ada Quillfeather"
    docket_command customer add --tenant GLOBEX --code G-2001 --name "Brindle and Sons"
    echo a-password-for-tests | docket_command contact add --tenant GLOBEX --customer G-2001 \
        --email bea@brindle.example --name "Bea Brindle"
}

# call <host> <path> <JSON> [curl's options]: through the ingress. Prints the answer; fails if it is not a 2xx.
call() {
    local host=$1 path=$2 body=$3
    shift 3
    curl --silent --show-error --fail-with-body --max-time 30 --resolve "$host:80:$node_address" \
        -H 'Content-Type: application/json' --data "$body" "$@" "http://$host$path"
}

field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

token() {
    call "acme.$base" /Auth/Token '{"userId":"ada@quillfeather.example","password":"a-password-for-tests"}' | field token
}

order='{"orderType":"Process","clientMatterNumber":"matter-of-e2e"}'

# A certificate for the name by which workers reach the receiver.
receiver_certificate() {
    local name=receiver.receiver.svc.cluster.local
    mkdir -p "$work/certificate"
    (
        cd "$work/certificate" || exit
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 -subj /CN=e2e-ca \
            -addext basicConstraints=critical,CA:TRUE -keyout ca.key -out receiver-ca.pem
        openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=receiver" \
            -keyout receiver-key.pem -out receiver.csr
        printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' "$name" >extensions
        openssl x509 -req -in receiver.csr -CA receiver-ca.pem -CAkey ca.key -CAcreateserial -days 90 \
            -extfile extensions -out receiver.pem
    ) 2>/dev/null
}

start_receiver() {
    receiver_certificate
    kubectl create namespace receiver
    kubectl -n receiver create secret generic certificate --from-file="$work/certificate/receiver-ca.pem" \
        --from-file="$work/certificate/receiver.pem" --from-file="$work/certificate/receiver-key.pem"
    kubectl -n receiver create secret generic signing --from-literal=secret=acme-demo-secret-not-for-production
    sed "s#IMAGE#$(tail -n 1 "$work/image" | cut -d ' ' -f 1)#" "$here/receiver.yaml" | kubectl apply -f -
    kubectl -n receiver rollout status deployment/receiver --timeout=1m
    kubectl create configmap receiver-ca --from-file=ca.crt="$work/certificate/receiver-ca.pem"
}

point_at_receiver() {
    kubectl patch webhook acme-orders --type merge --patch '{"spec": {
        "targetURL": "https://receiver.receiver.svc.cluster.local/acme",
        "caBundleRef": {"kind": "ConfigMap", "name": "receiver-ca"}}}'
    local generation
    generation=$(kubectl get webhook acme-orders -o jsonpath='{.metadata.generation}')
    kubectl wait webhook acme-orders --for=jsonpath='{.status.observedGeneration}'="$generation" --timeout=30s
    kubectl wait webhook acme-orders --for=condition=Programmed --timeout=30s
}

received() { kubectl -n receiver logs deployment/receiver --tail=-1 | grep -c "order.created.*signature verified"; }

# Deliveries of the kind `order.created` that came, a repeated one counted once. A line has only an end of each id.
received_once() {
    kubectl -n receiver logs deployment/receiver --tail=-1 |
        sed -n 's/.*order\.created \(.* delivery [^ ]*\) .*→ 200  signature verified.*/\1/p' | sort -u | wc -l
}

# The most POSTs of one such delivery.
most_posts() {
    kubectl -n receiver logs deployment/receiver --tail=-1 |
        sed -n 's/.*order\.created \(.* delivery [^ ]*\) .*/\1/p' | sort | uniq -c | awk '$1 > most { most = $1 } END { print most + 0 }'
}

received_more_than() { [ "$(received_once)" -gt "$1" ]; }
received_exactly() { [ "$(received_once)" -eq "$1" ]; }

order_through_ingress() {
    local before
    before=$(received_once)
    call "acme.$base" /Orders/Save "$order" -H "Authorization: Bearer $(token)"
    until_true 10 received_more_than "$before"
}

forwarded_host() {
    local mine
    mine=$(token)
    call "acme.$base" /Orders/Save "$order" -H "Authorization: Bearer $mine" -H "X-Forwarded-Host: globex.$base" \
        -H "Forwarded: host=globex.$base"
    # And the token is worth nothing on the other tenant's host.
    [ "$(call "globex.$base" /Orders/Save "$order" -H "Authorization: Bearer $mine" -H "X-Forwarded-Host: acme.$base" \
        --output /dev/null --write-out '%{http_code}' || true)" = 401 ]
}

# visit <path> [curl's options]: a page of the portal, in the session of $cookie.
visit() {
    local path=$1 host=acme.$base
    shift
    curl --silent --show-error --max-time 60 --resolve "$host:80:$node_address" -H 'Sec-Fetch-Site: same-origin' \
        -H "Cookie: $cookie" "$@" "http://$host$path"
}

portal_is_open() {
    visit /portal/webhooks >"$work/webhooks"
    grep -q "Add a webhook" "$work/webhooks"
}

# between <before> <after>: the text between two others, as in an attribute.
between() { python3 -c 'import sys; print(sys.stdin.read().split(sys.argv[1], 1)[1].split(sys.argv[2], 1)[0])' "$1" "$2"; }

declare_in_portal() {
    local cookie="" csrf name secret
    echo a-password-for-tests |
        docket_command employee add --tenant ACME --user alex.admin --name "Alex Admin" --administrator
    cookie=$(visit /portal/sign-in --output /dev/null --dump-header - --data kind=employee --data userId=alex.admin \
        --data password=a-password-for-tests | sed -n 's/^[Ss]et-[Cc]ookie: \([^;]*\).*/\1/p')
    until_true 30 portal_is_open
    csrf=$(visit /portal/webhooks/new | between 'name="csrf" value="' '"')
    visit /portal/webhooks/new --data "csrf=$csrf" --data displayName=Portal --data customerCode=C-1001 \
        --data targetUrl=https://hooks.example/portal --data order.created=yes --data active=yes >"$work/made"
    secret=$(between 'For X-Service-Signature</dt><dd><code>' '<' <"$work/made") || { cat "$work/made"; return 1; }
    name=$(between 'href="/portal/webhooks/default/' '"' <"$work/made")
    [ "$(kubectl get secret "$name.signing-secret" -o jsonpath='{.data.secret}' | base64 --decode)" = "$secret" ]
    kubectl get webhook "$name" -o jsonpath='{.metadata.labels}' | grep -q docket-portal
    visit "/portal/webhooks/default/acme-orders" >"$work/declared"
    grep -q "kubectl keeps" "$work/declared"
    kubectl delete webhook "$name"
}

# The login of this node is a certificate, so an account asks.
ask_kubectl_docket() {
    local before
    before=$(received_once)
    PATH=$work/plugin:$PATH
    kubectl -n docket create serviceaccount support
    ! kubectl docket test acme-orders --account docket/support || { echo "an account without a right may"; return 1; }
    kubectl apply -f - <<END
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: support}
rules: [{apiGroups: [docket.dev], resources: [tenants/deliveries, webhooks/deliveries], verbs: [list, get, test]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: support}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: support}
subjects: [{kind: ServiceAccount, name: support, namespace: docket}]
END
    # A refusal counts for ten seconds.
    until_true 15 kubectl docket test acme-orders --account docket/support
    until_true 10 received_more_than "$before"
    kubectl docket deliveries acme-orders --account docket/support | tee "$work/deliveries"
    grep -q "order.created.*Succeeded" "$work/deliveries"
    # Webhooks whose receivers do not exist may be unhealthy by now: 1.
    kubectl docket status acme >"$work/status" || [ $? -eq 1 ]
    cat "$work/status"
    grep -q "Tenant.*acme.*Ready" "$work/status"
    kubectl docket check >"$work/check" || [ $? -eq 1 ]
    cat "$work/check"
    grep -q "docket-tenants" "$work/check"
    report_has_no_secret
}

# The report lacks nothing, and holds no key, secret, password or word of an order.
report_has_no_secret() {
    local secret file
    kubectl docket report -f "$work/report.zip"
    python3 -m zipfile -e "$work/report.zip" "$work/report"
    for file in versions check status conditions deployments events; do
        [ -s "$work/report/$file.json" ]
    done
    grep -q docket_ "$work/report/metrics.txt"
    grep -rq docket "$work/report/logs"
    ! grep -rE 'matter-of-e2e|acme-demo-secret|a-password-for-tests' "$work/report" || return 1
    for secret in acme-apikey-primary/api-key acme-database/password; do
        secret_value "$secret" | grep -q .
        ! grep -rF -f <(secret_value "$secret") "$work/report" || return 1
    done
}

# secret_value <secret>/<key>, with a line break.
secret_value() { kubectl get secret "${1%/*}" -o jsonpath="{.data.${1#*/}}" | base64 --decode; echo; }

# reaches <namespace> <component or app> <host> <port>: whether that pod's network does.
reaches() {
    local address
    address=$(kubectl -n "$1" get pods -l "$2" -o jsonpath='{.items[0].status.podIP}')
    # shellcheck disable=SC2016
    "$here/node" exec bash -c 'for pod in /run/netns/*; do
        if nsenter --net="$pod" ip -4 address | grep -qF " $1/"; then
            exec nsenter --net="$pod" timeout 3 bash -c ">/dev/tcp/$2/$3"
        fi
    done; exit 9' - "$address" "$3" "$4" 2>/dev/null
}

policies_hold() {
    local worker=app.kubernetes.io/component=worker api store target
    api=$(kubectl -n docket get pods -l app.kubernetes.io/component=api -o jsonpath='{.items[0].status.podIP}')
    store=$(kubectl -n stores get service postgres -o jsonpath='{.spec.clusterIP}')
    for target in "$store 5432" "10.96.0.100 443" "10.96.0.1 443" "10.96.0.10 53"; do
        echo "the worker reaches $target"
        # shellcheck disable=SC2086
        reaches docket "$worker" $target
    done
    # Another pod reaches the API and the kubelet; the worker does not.
    for target in "$api 8080" "$node_address 10250"; do
        echo "another pod reaches $target"
        # shellcheck disable=SC2086
        reaches receiver app=receiver $target
        echo "the worker does not reach $target"
        # shellcheck disable=SC2086
        ! reaches docket "$worker" $target || return 1
    done
}

kubectl_tells() {
    kubectl get docket --all-namespaces | tee "$work/get"
    [ "$(grep -cE '^default +(tenant.docket.dev/(acme|globex)|webhook.docket.dev/(acme-orders|acme-invoices|globex-orders)) ' "$work/get")" -eq 5 ]
    # The counters come from the data plane, a while after the deliveries.
    until_true 60 webhook_reports_success
    kubectl describe webhook acme-orders | tee "$work/describe"
    grep -q 'Type: *Ready' "$work/describe"
    grep -q 'Type: *DeliveryHealthy' "$work/describe"
    # What is secret is in none of it.
    ! kubectl get tenants,webhooks,events -o yaml | grep -E 'acme-demo-secret|a-password-for-tests|postgres://' || return 1
}

webhook_reports_success() {
    [ -n "$(kubectl get webhook acme-orders -o jsonpath='{.status.deliveries.lastSuccessAt}')" ]
}

# Saves one order after another until $work/stop is there: a line `<code> <seconds> <webOrderId>` for each, code 000 without answer.
saver() {
    local answer
    while [ ! -e "$work/stop" ]; do
        answer=$(call "acme.$base" /Orders/Save "$order" -H "Authorization: Bearer $2" --write-out '\n%{http_code} %{time_total}' 2>/dev/null) || true
        echo "${answer##*$'\n'} $(sed -nE 's/.*"webOrderId":"([^"]*)".*/\1/p' <<<"$answer")"
    done >"$work/saves-$1"
}

# while_saving <command> …: runs it while three clients save; then all that was acknowledged is in the database, and
# delivered with five POSTs at most. Prints how many saves there were and how many were not answered with 200.
while_saving() {
    local mine before delivered failures posts
    rm -f "$work/stop" "$work"/saves-*
    mine=$(token)
    delivered=$(received_once)
    # Each step is a subshell: this is its end, also after a failure.
    trap 'touch "$work/stop"; wait' EXIT
    for before in 1 2 3; do saver "$before" "$mine" & done
    sleep 2   # some saves before, and some after
    "$@"
    sleep 2
    touch "$work/stop"
    wait
    awk '$1 == 200 { print $3 }' "$work"/saves-* | sort -u >"$work/acknowledged"
    awk '$1 != 200 { count[$1]++ } END { for (code in count) print count[code] " with " code }' "$work"/saves-* >"$work/others"
    failures=$(paste -s -d , "$work/others")
    figure "$(wc -l <"$work/acknowledged") saves acknowledged; failed: ${failures:-none};" \
        "the longest took $(sort -k 2 -g "$work"/saves-* | awk 'END { print $2 }') s"
    sql tenant_acme 'SELECT id FROM web_order' | sort >"$work/stored"
    if [ -n "$(comm -23 "$work/acknowledged" "$work/stored")" ]; then
        echo "acknowledged, but not in the database:"
        comm -23 "$work/acknowledged" "$work/stored"
        return 1
    fi
    # Each order that was stored, also one whose answer was lost, has its event and is delivered.
    until_true 120 nothing_pending
    [ "$(sql tenant_acme "SELECT count(*) FROM web_order o WHERE NOT EXISTS (SELECT 1 FROM event e JOIN delivery d
        ON d.event_id = e.id AND d.status = 'Succeeded' WHERE e.web_order_id = o.id AND e.code = 'order.created')")" = 0 ]
    [ "$(received_once)" -ge $((delivered + $(wc -l <"$work/acknowledged"))) ]
    posts=$(most_posts)
    [ "$posts" -le 5 ] || { echo "a delivery had $posts POSTs"; return 1; }
    [ "$(wc -l <"$work/acknowledged")" -ge 20 ]
}

nothing_pending() {
    [ "$(sql tenant_acme "SELECT count(*) FROM delivery WHERE status IN ('Pending', 'Failed')")" = 0 ]
}

sql() { kubectl -n stores exec -i deployment/postgres -- psql -h 127.0.0.1 -U postgres -d "$1" -AtXqc "$2"; }

upgrade_under_saves() { upgraded_under_saves from_registry upgrade --set log.level=debug; }

no_pod_is_old() {
    [ -z "$(comm -12 "$work/before" <(kubectl -n docket get pods -o name | sort))" ]
}

kill_pods() {
    local component
    for component in worker api detector operator; do
        kubectl -n docket delete --grace-period=0 --force --wait=false \
            "$(kubectl -n docket get pods -l "app.kubernetes.io/component=$component" -o name | head -n 1)"
        sleep 2
    done
    all_run
}

all_run() { kubectl -n docket rollout status deployment --selector app.kubernetes.io/instance=docket --timeout=2m; }

kill_under_saves() { while_saving kill_pods; }

scale_to_none() {
    local before component
    before=$(received_once)
    kubectl -n docket scale deployment docket-worker --replicas=0
    kubectl -n docket wait --for=delete pod -l app.kubernetes.io/component=worker --timeout=2m
    call "acme.$base" /Orders/Save "$order" -H "Authorization: Bearer $(token)"
    for component in api detector operator; do
        kubectl -n docket scale deployment "docket-$component" --replicas=0
    done
    for component in api detector operator; do
        kubectl -n docket wait --for=delete pod -l "app.kubernetes.io/component=$component" --timeout=2m
    done
    [ "$(received_once)" -eq "$before" ]
    kubectl -n docket scale deployment docket-api docket-worker --replicas=2
    kubectl -n docket scale deployment docket-detector docket-operator --replicas=1
    all_run
    until_true 30 received_exactly $((before + 1))
}

no_restarts() {
    kubectl -n docket get pods
    [ -z "$(kubectl -n docket get pods -o jsonpath='{range .items[*].status.containerStatuses[?(@.restartCount>0)]}{.name}{"\n"}{end}')" ]
}

uninstall() {
    sql tenant_acme 'SELECT count(*) FROM web_order' >"$work/orders"
    helm uninstall docket --namespace docket --wait --timeout 2m
    both_databases
    [ "$(sql tenant_acme 'SELECT count(*) FROM web_order')" = "$(cat "$work/orders")" ]
    kubectl get tenants acme globex
}

install_again() {
    from_registry install
    examples_ready
    [ "$(sql tenant_acme 'SELECT count(*) FROM web_order')" = "$(cat "$work/orders")" ]
    # The person of before signs in, and her next order is delivered.
    order_through_ingress
}
