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

# --- from the version before, and back ---

previous_commit() {
    git rev-parse "$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null || sed '/^#/d' release/previous)^{commit}"
}

# Its image is built once and kept. Its chart is that of its commit. Its sources are inside those of this version, whose image/build
# builds it, so that cargo compiles once what both depend on.
build_previous() {
    local commit profile=${DOCKET_IMAGE_PROFILE:-release} kept sources=$PWD/target/previous
    commit=$(previous_commit)
    kept=$DOCKET_TEST_CACHE/previous-$commit-$profile.tar
    rm -rf "$sources"
    git clone --quiet --no-checkout . "$sources"
    git -C "$sources" checkout --quiet --detach "$commit"
    cp -r "$sources" "$work/previous"
    if [ ! -e "$kept" ]; then
        rm -f "$DOCKET_TEST_CACHE"/previous-*
        cp image/build image/*.py "$sources/image"
        CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} "$sources/image/build" --profile "$profile" --beside "$PWD" \
            --programs "$work/previous-programs" --reference docket.test/docket:previous --output "$kept.new"
        mv "$kept.new" "$kept"
    fi
    rm -r "$sources"
    cp "$kept" "$work/previous.tar"   # for import_images
}

install_previous() {
    # shellcheck disable=SC2046
    helm install docket "$work/previous/charts/docket" --values "$work/previous/tests/cluster/values.yaml" $(chart_values) \
        --set image.repository=docket.test/docket --set image.tag=previous
}

# upgraded_under_saves <command> …: all pods are new ones, no save was lost, and none failed.
upgraded_under_saves() {
    kubectl -n docket get pods -o name | sort >"$work/before"
    while_saving "$@"
    until_true 60 no_pod_is_old || { echo "a pod is still the old one"; return 1; }
    [ ! -s "$work/others" ]
}

upgrade_from_previous() {
    upgraded_under_saves from_registry upgrade
    pods_run_the_digest
}

roll_back() { helm rollback docket --namespace docket --wait --timeout 4m; }

roll_back_and_forth() {
    upgraded_under_saves roll_back
    [ "$(images_of_pods)" = docket.test/docket:previous ]
    upgrade_from_previous
}
