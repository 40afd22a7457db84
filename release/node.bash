# Steps of tests/cluster/e2e that install a release as its users do: from a registry, by digest. They are sourced there after
# story.bash, and use its functions and its $here, $work and $base.
# shellcheck disable=SC2154

# The registry runs beside the kubelet and ends with the node: containerd and Helm take a loopback address without TLS.
node_registry=127.0.0.1:5000

on_node() { "$here/node" exec env --chdir "$PWD" "$@"; }

image_digest() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["image"])' "$work/release/digests.json"; }

# shown <command>: the line of README.md that begins with it, to be run here.
shown() { grep -m 1 "^$1 " README.md || { echo "README.md does not show $1" >&2; return 1; }; }

# The archive of its image is also for the steps that have no registry.
build_release() {
    local dirty=''
    [ -z "$(git status --porcelain)" ] || dirty=--dirty
    REGISTRY=$node_registry bash -ec "$(shown release/build) --output '$work/release' $dirty"
    cp "$work"/release/docket-image-*.tar "$work/docket.tar"
    echo "localhost/docket:$(release/version)" >"$work/image"
    mkdir "$work/plugin"
    tar -xf "$work"/release/kubectl-docket-*.tar.gz -C "$work/plugin"
}

push_release() {
    local tools
    tools=$(release/tools/build registry crane | tail -n 1)
    # shellcheck disable=SC2016
    on_node bash -c 'exec setsid "$0" -listen "$1" </dev/null >/dev/null 2>&1 &' "$tools/registry" "$node_registry"
    until_true 10 on_node curl --silent --fail --output /dev/null "http://$node_registry/v2/"
    REGISTRY=$node_registry on_node bash -ec "$(shown release/push) '$work/release'"
}

# from_registry <install or upgrade> [helm's options]
from_registry() {
    # shellcheck disable=SC2046
    on_node helm "$1" docket "oci://$node_registry/charts/docket" --version "$(release/version)" --plain-http \
        --values "$here/values.yaml" $(chart_values) "${@:2}"
}

# Every pod of Docket runs the image by the digest that was built, and the node has pulled it by that.
pods_run_the_digest() {
    local image
    image=$node_registry/docket@$(image_digest)
    images_of_pods | tee "$work/pods"
    [ "$(cat "$work/pods")" = "$image" ]
    kubectl -n docket get events -o jsonpath='{range .items[?(@.reason=="Pulled")]}{.message}{"\n"}{end}' |
        grep -F "Successfully pulled image \"$image\""
}

# But for the stores of the quickstart.
images_of_pods() {
    kubectl -n docket get pods -l app.kubernetes.io/instance=docket -o jsonpath='{.items[*].spec.containers[*].image}' |
        tr ' ' '\n' | grep -vE '^docket.test/(postgres|redis):' | sort -u
}

# The red case: a digest that the registry does not have.
absent_image_is_not_run() {
    kubectl run absent --image "$node_registry/docket@sha256:$(printf %064d 0)"
    until_true 60 absent_image_is_refused
    kubectl delete pod absent --now
}
absent_image_is_refused() {
    kubectl get pod absent -o jsonpath='{.status.containerStatuses[0].state.waiting.reason}' | grep -E 'ErrImagePull|ImagePullBackOff'
}

# --- from an older version, and back: $pin is its name in release/previous ---

previous_commit() {
    local commit=''
    [ "$pin" != additive ] || commit=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null) || true
    git rev-parse "${commit:-$(awk -v pin="$pin" '$1 == pin { print $2 }' release/previous)}^{commit}"
}

# Its image is built once and kept. Its chart is that of its commit. Its sources are inside those of this version, whose image/build
# builds it, so that cargo compiles once what both depend on.
build_previous() {
    local commit profile=${DOCKET_IMAGE_PROFILE:-release} kept sources=$PWD/target/previous folder=$work/$pin
    commit=$(previous_commit)
    kept=$DOCKET_TEST_CACHE/previous-$pin-$commit-$profile.tar
    rm -rf "$sources"
    git clone --quiet --no-checkout . "$sources"
    git -C "$sources" checkout --quiet --detach "$commit"
    cp -r "$sources" "$folder"
    if [ ! -e "$kept" ]; then
        rm -f "$DOCKET_TEST_CACHE/previous-$pin"-*
        cp image/build image/*.py "$sources/image"
        CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} "$sources/image/build" --profile "$profile" --beside "$PWD" \
            --programs "$folder-programs" --reference "docket.test/docket:$pin" --output "$kept.new"
        mv "$kept.new" "$kept"
    fi
    rm -r "$sources"
    cp "$kept" "$folder.tar"   # for import_images
}

install_previous() {
    # shellcheck disable=SC2046
    helm install docket "$work/$pin/charts/docket" --values "$work/$pin/tests/cluster/values.yaml" $(chart_values) \
        --set image.repository=docket.test/docket --set "image.tag=$pin"
}

# upgraded_under_saves <command> …: all pods are new ones, no save was lost, and none failed but as documented.
upgraded_under_saves() {
    kubectl -n docket get pods -o name | sort >"$work/before"
    while_saving "$@"
    until_true 60 no_pod_is_old || { echo "a pod is still the old one"; return 1; }
    failures_are_documented
}

# docs/kubernetes/upgrade.md: no request fails if all new migrations are additive. Over another one, pods answer 503 while they can't
# work with the schema.
failures_are_documented() {
    case $pin in
        additive) [ ! -s "$work/others" ] || { echo "a save failed"; return 1; } ;;
        *) ! grep -v ' with 503$' "$work/others" || { echo "a save failed with another status than 503"; return 1; } ;;
    esac
}

upgrade_from_previous() {
    local before
    before=$(schema_version)
    upgraded_under_saves to_this_version
    pods_run_the_digest
    history_is_whole
    [ "$(schema_version)" = "$before" ] || migration_took "$before"
}

# The saves continue until the operator has migrated the database and, over a large history, workers have built the indexes.
to_this_version() {
    from_registry upgrade
    until_true 120 schema_is_newest
    [ "$deliveries" -eq 0 ] || until_true 900 indexes_are_built
}

roll_back() { helm rollback docket --namespace docket --wait --timeout 4m; }

pods_run_previous() {
    images_of_pods | tee "$work/pods"
    [ "$(cat "$work/pods")" = "docket.test/docket:$pin" ]
}

roll_back_and_forth() {
    upgraded_under_saves roll_back
    pods_run_previous
    history_is_whole
    upgrade_from_previous
}

# The pods of the older version refuse the schema. What was saved before is there, and is delivered after the way forward.
roll_back_over_the_step() {
    upgraded_under_saves refused_and_served_again
    history_is_whole
}

# Runs in while_saving, whose clients have the token $mine.
refused_and_served_again() {
    local begun
    roll_back
    until_true 60 pods_run_previous
    until_true 60 save_answers 503
    until_true 60 log_names_the_schema
    from_registry upgrade
    begun=$SECONDS
    until_true 60 save_answers 200
    figure "served again $((SECONDS - begun)) s after the way forward"
}

# save_answers <status>
save_answers() {
    local status
    status=$(call "acme.$base" /Orders/Save "$order" -H "Authorization: Bearer $mine" --output /dev/null \
        --write-out '%{http_code}' 2>/dev/null) || true
    [ "$status" = "$1" ] || { echo "a save was answered with $status"; return 1; }
}

log_names_the_schema() {
    kubectl -n docket logs --selector 'app.kubernetes.io/component in (api, worker)' --tail=-1 >"$work/log"
    grep "schema version $(schema_version)" "$work/log" >/dev/null
}

# --- a database with many finished deliveries ---

schema_version() { sql tenant_acme 'SELECT max(version) FROM schema_version'; }
schema_is_newest() {
    [ "$(schema_version)" = "$(sed -nE 's/^ {8}version: ([0-9]+),$/\1/p' dataplane/schema/src/lib.rs | tail -n 1)" ]
}

# Copies of the first order that was delivered, its event and its delivery, so that they fit each schema: ten events of each order,
# the newest before the first order, 60 ms apart. No id of Docket begins as theirs do.
fill_history() {
    local begun=$SECONDS age="($deliveries - n) * 60" order_of="'H' || lpad(((n - 1) / 10)::text, 8, '0')"
    local event="'evt_' || lpad(n::text, 32, '0')" delivery="'00000000-0000-7000-8000-' || lpad(n::text, 12, '0')"
    until_true 30 nothing_pending
    sql tenant_acme "
        WITH sample AS MATERIALIZED (
            SELECT d.id AS delivery, e.id AS event, o.id AS web_order
            FROM delivery_history d JOIN event e ON e.id = d.event_id JOIN web_order o ON o.id = e.web_order_id
            WHERE d.status = 'Succeeded' AND e.code = 'order.created' ORDER BY d.created_at_ms LIMIT 1
        ), orders AS (
            INSERT INTO web_order SELECT row_n.* FROM web_order o, generate_series(1::bigint, $deliveries, 10) n,
                jsonb_populate_record(o, jsonb_build_object('id', $order_of, 'created_at_ms', o.created_at_ms - $age,
                    'updated_at_ms', o.updated_at_ms - $age)) row_n
            WHERE o.id = (SELECT web_order FROM sample)
        ), events AS (
            INSERT INTO event SELECT row_n.* FROM event e, generate_series(1::bigint, $deliveries) n,
                jsonb_populate_record(e, jsonb_build_object('id', $event, 'web_order_id', $order_of,
                    'occurred_at_ms', e.occurred_at_ms - $age)) row_n
            WHERE e.id = (SELECT event FROM sample)
        )
        INSERT INTO delivery_history SELECT row_n.* FROM delivery_history d, generate_series(1::bigint, $deliveries) n,
            jsonb_populate_record(d, jsonb_build_object('id', $delivery, 'event_id', $event,
                'due_at_ms', d.due_at_ms - $age, 'created_at_ms', d.created_at_ms - $age,
                'started_at_ms', d.started_at_ms - $age, 'finished_at_ms', d.finished_at_ms - $age)) row_n
        WHERE d.id = (SELECT delivery FROM sample)"
    sql tenant_acme 'VACUUM ANALYZE'
    history_is_whole
    figure "$deliveries finished deliveries, $(sql tenant_acme 'SELECT pg_size_pretty(pg_database_size(current_database()))')," \
        "written in $((SECONDS - begun)) s; schema $(schema_version)"
}

# What fill_history wrote is there.
history_is_whole() {
    local found
    found=$(sql tenant_acme "SELECT count(*) FROM delivery_history d JOIN event e ON e.id = d.event_id
        JOIN web_order o ON o.id = e.web_order_id WHERE d.id LIKE '00000000-%' AND d.status = 'Succeeded'")
    [ "$found" -eq "$deliveries" ] || { echo "of $deliveries finished deliveries $found are there"; return 1; }
}

# The indexes in dataplane/schema/src/lib.rs that the database lacks.
missing_indexes() {
    local names
    names=$(grep -oE 'CREATE INDEX [a-z_]+' dataplane/schema/src/lib.rs | cut -d ' ' -f 3 | paste -s -d ,)
    sql tenant_acme "SELECT name FROM unnest(string_to_array('$names', ',')) name WHERE NOT EXISTS
        (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(name) AND indisvalid)"
}
indexes_are_built() {
    local missing
    missing=$(missing_indexes) && [ -z "$missing" ]
}

# migration_took <version before>: how long its transaction held its locks at most, by the server's clock. applied_at_ms is when the
# transaction began.
migration_took() {
    figure "$(sql tenant_acme "SELECT format('migrated from schema %s to %s in %s ms', $1, max(version),
        round(max(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000 - applied_at_ms)))
        FROM schema_version WHERE version > $1")"
}
