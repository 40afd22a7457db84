# A `docket dev` with the tenants of examples/ in a temporary folder, $home, for test scripts that source this. They set $root and
# $docket. The program ends and the folder goes when the script exits.
# shellcheck shell=bash disable=SC2034,SC2154

home=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$home"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Ports that are free now; another process may be faster, so a start that fails is tried again on others.
ports() {
    python3 -c '
import socket
held = [socket.socket() for _ in range(3)]
for one in held: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))'
}

# start [command …]: the command may change $home/config first. Sets $api. What the program prints is in $home/out and $home/err.
start() {
    local port_api port_management port_receiver
    read -r port_api port_management port_receiver < <(ports)
    rm -rf "$home/config" "$home/data"
    cp -r "$root/examples" "$home/config"
    sed -i "s/127\.0\.0\.1:8443/127.0.0.1:$port_receiver/" "$home"/config/*.yaml
    "${@:-true}"
    : >"$home/out"
    "$docket" dev --config-dir "$home/config" --data-dir "$home/data" --listen "127.0.0.1:$port_api" \
        --management "127.0.0.1:$port_management" --receiver "127.0.0.1:$port_receiver" \
        >"$home/out" 2>"$home/err" &
    server=$!
    for _ in $(seq 100); do
        # The command is the end of the banner, which follows when the program is ready.
        grep -q 'TOKEN=' "$home/out" && { api=http://127.0.0.1:$port_api; return; }
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}
