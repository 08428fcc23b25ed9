#!/usr/bin/env bash
# Builds Dockerfile.linux and holds what docs/containers.md says against real containers:
# the seccomp profiles, a read-only root, an ordinary user, limits on memory and
# processes, the health check, the end. One line for each thing that was seen; the exit
# code is not 0 when one was not.
#
#   test/docker.sh                      # with the engine that runs: Docker, else Podman
#   test/docker.sh --start              # starts a Docker engine of its own where none runs (root)
#   test/docker.sh --image NAME         # builds nothing: the image is there
#   test/docker.sh --binary FELIXD      # builds the last stage alone, around a program that is there
#   BUILD_IMAGE=… RUN_IMAGE=… test/docker.sh
#   CONTAINER_CLI="podman --runtime runc" RUN_OPTIONS="--ulimit nofile=20000:20000" test/docker.sh
#
# Where no engine runs it prints "skipped: …" and exits 0. Where no registry answers, it
# builds on an image made of this machine's Go and BusyBox, and runs on scratch.
set -euo pipefail
cd "$(dirname "$0")/.."

start= image= binary=
while [ $# -gt 0 ]; do
  case $1 in
  --start) start=yes ;;
  --image)
    image=$2
    shift
    ;;
  --binary)
    binary=$2
    shift
    ;;
  *)
    echo "usage: test/docker.sh [--start] [--image NAME | --binary FELIXD]" >&2
    exit 2
    ;;
  esac
  shift
done

profile=$PWD/deploy/seccomp-felixd.json
tag=felix-docker-test
work=$(mktemp -d)
checks=0
failures=0
engine_pid=
# The engine's command, and what every container is started with.
read -ra cli <<<"${CONTAINER_CLI:-}"
read -ra options <<<"${RUN_OPTIONS:-}"

skip() {
  echo "skipped: $*"
  exit 0
}

say() { printf '%-6s %s\n' "$1" "$2"; }

# pass WHAT and fail WHAT count one check.
pass() {
  checks=$((checks + 1))
  say ok "$1"
}

fail() {
  checks=$((checks + 1))
  failures=$((failures + 1))
  say FAILED "$1"
}

# holds WHAT TEXT PART checks that a text has a part.
holds() {
  case $2 in
  *"$3"*) pass "$1" ;;
  *)
    fail "$1: no $3 in"
    printf '%s\n' "$2"
    ;;
  esac
}

clean() {
  local status=$?
  if [ "${#cli[@]}" -gt 0 ]; then
    "${cli[@]}" ps -aq --filter "label=$tag" | xargs -r "${cli[@]}" rm -f >/dev/null 2>&1 || true
    "${cli[@]}" volume ls -q --filter "name=$tag" | xargs -r "${cli[@]}" volume rm -f >/dev/null 2>&1 || true
  fi
  if [ -n "$engine_pid" ]; then
    kill "$engine_pid" 2>/dev/null && wait "$engine_pid" 2>/dev/null || true
    # What the engine mounted goes with it; a mount that stays keeps its directory.
    awk -v at="$work/" 'index($2, at) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount 2>/dev/null || true
  fi
  rm -rf "$work" 2>/dev/null || true
  exit "$status"
}
trap clean EXIT

# start_engine runs dockerd for this test alone: its own data, no network of its own.
start_engine() {
  command -v dockerd >/dev/null || return 1
  [ "$(id -u)" = 0 ] || return 1
  export DOCKER_HOST=unix://$work/docker.sock
  dockerd --iptables=false --ip6tables=false --bridge=none --data-root="$work/data" --exec-root="$work/exec" \
    --pidfile="$work/docker.pid" -H "$DOCKER_HOST" >"$work/dockerd.log" 2>&1 &
  engine_pid=$!
  for _ in $(seq 60); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$engine_pid" 2>/dev/null || break
    sleep 0.5
  done
  tail -n 3 "$work/dockerd.log"
  return 1
}

if [ "${#cli[@]}" -gt 0 ]; then
  "${cli[@]}" info >/dev/null
elif docker info >/dev/null 2>&1; then
  cli=(docker)
elif [ -n "$start" ] && start_engine; then
  cli=(docker)
elif podman info >/dev/null 2>&1; then
  cli=(podman)
else
  skip "no container engine runs here (docker info and podman info fail); test/docker.sh --start starts one as root where dockerd is installed"
fi
format=()
case ${cli[0]} in
*podman)
  podman=yes
  version=$("${cli[@]}" --version)
  format=(--format docker) # the other has no health check
  ;;
*)
  podman=
  version="Docker $("${cli[@]}" version --format '{{.Server.Version}}')"
  "${cli[@]}" buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
  ;;
esac
echo "engine: $version, kernel $(uname -r)"

# local_base imports an image that can build: Go as it is installed here, the modules
# that go.mod names, and BusyBox for a shell.
local_base() {
  local root=$work/base busybox
  busybox=$(command -v busybox) || skip "no registry answers, and there is no busybox to build an image on"
  if ldd "$busybox" >/dev/null 2>&1; then
    skip "no registry answers, and busybox is linked dynamically; install busybox-static"
  fi
  mkdir -p "$root"/{bin,tmp,etc,root/go,usr/local/go}
  cp "$busybox" "$root/bin/busybox"
  for name in sh mkdir; do ln -s busybox "$root/bin/$name"; done
  tar -C "$(go env GOROOT)" --exclude=./test --exclude=./api --exclude=./doc -cf - . | tar -C "$root/usr/local/go" -xf -
  # Modules come from where go has them here, or from where it gets them.
  GOMODCACHE=$root/root/go/pkg/mod GOFLAGS=-modcacherw GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" GONOSUMDB='*' \
    go mod download
  tar -C "$root" -cf - . | "${cli[@]}" import --change "ENV PATH=/bin:/usr/local/go/bin" --change "ENV HOME=/root" \
    --change "ENV GOPROXY=off" --change "ENV GOFLAGS=-buildvcs=false" --change "ENV GOTOOLCHAIN=local" - "$tag:base" >/dev/null
  rm -rf "$root"
}

# build_last makes the image of the file's last stage and a program that is there.
build_last() {
  local at=$work/context
  mkdir -p "$at/out"
  mkdir -m 0750 "$at/out/data"
  cp "$binary" "$at/out/felixd"
  {
    printf 'ARG RUN_IMAGE=scratch\nFROM scratch AS build\nCOPY out /out\n'
    sed -n '/^FROM ${RUN_IMAGE}/,$p' Dockerfile.linux
  } >"$at/Dockerfile"
  "${cli[@]}" build ${format[@]+"${format[@]}"} -t "$tag" "$at" >"$work/build.log" 2>&1 || {
    tail -n 30 "$work/build.log"
    fail "the last stage is built"
    exit 1
  }
  pass "the last stage is built around $binary"
}

# build makes the image.
build() {
  local began from run network=()
  if [ -z "${BUILD_IMAGE:-}" ]; then
    from=$(sed -n 's/^ARG BUILD_IMAGE=//p' Dockerfile.linux)
    run=$(sed -n 's/^ARG RUN_IMAGE=//p' Dockerfile.linux)
    if timeout 300 "${cli[@]}" pull -q "$from" >/dev/null 2>&1 && timeout 60 "${cli[@]}" pull -q "$run" >/dev/null 2>&1; then
      BUILD_IMAGE=$from RUN_IMAGE=$run
    else
      echo "no registry gives $from and $run: building on this machine's Go, running on scratch"
      local_base
      BUILD_IMAGE=$tag:base RUN_IMAGE=scratch
      network=(--network none)
    fi
  fi
  began=$SECONDS
  "${cli[@]}" build ${format[@]+"${format[@]}"} ${network[@]+"${network[@]}"} -f Dockerfile.linux --build-arg "BUILD_IMAGE=$BUILD_IMAGE" --build-arg "RUN_IMAGE=${RUN_IMAGE:-scratch}" \
    --build-arg VERSION=0.0.0-docker -t "$tag" . >"$work/build.log" 2>&1 || {
    tail -n 30 "$work/build.log"
    fail "the image is built"
    exit 1
  }
  pass "the image is built on $BUILD_IMAGE for ${RUN_IMAGE:-scratch}, in $((SECONDS - began)) s"
}

if [ -n "$image" ]; then
  "${cli[@]}" tag "$image" "$tag"
elif [ -n "$binary" ]; then
  build_last
else
  build
fi

# run ARGS... runs a container of the image that is gone afterwards, with no network but
# its own loopback.
run() { "${cli[@]}" run ${options[@]+"${options[@]}"} --rm --label "$tag" --network none "$@"; }

# felixd_json FIELD cuts a text field of an event out of what was printed.
field() { sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p' | head -n 1; }

size=$("${cli[@]}" image inspect --format '{{.Size}}' "$tag")
if [ "$size" -lt 50000000 ]; then
  pass "the image is small: $size bytes"
else
  fail "the image has $size bytes"
fi
holds "the image runs as an ordinary user" "$("${cli[@]}" image inspect --format '{{.Config.User}}' "$tag")" "10001:10001"
if [ -z "$image$binary" ]; then
  holds "the version is the build argument's" "$(run "$tag" version --json)" '"version":"0.0.0-docker"'
fi

# The same profile without the entry of the ring: a runtime's own profile, as far as
# felixd can tell.
without=$work/without-io-uring.json
awk '{ lines[NR] = $0 }
  /^    \{$/ { start = NR }
  /io_uring_setup/ { from = start }
  /^    \},?$/ && from && !to { to = NR }
  END { for (i = 1; i <= NR; i++) if (i < from || i > to) print lines[i] }' "$profile" >"$without"

denied='a seccomp filter forbids it: allow io_uring_setup, io_uring_enter and io_uring_register, as the profile deploy/seccomp-felixd.json does (Docker: --security-opt seccomp=seccomp-felixd.json; Kubernetes: a seccompProfile of type Localhost; systemd: SystemCallFilter=io_uring_setup io_uring_enter io_uring_register)'

# demo NAME BACKEND ARGS... runs the demo in a container and wants a backend.
demo() {
  local name=$1 backend=$2 out
  shift 2
  out=$(run "$@" "$tag" demo --dir /data 2>"$work/stderr" | tail -n 1) || true
  case $out in
  *'"failed":0,"backend":"'"$backend"*) pass "$name: the demo holds on the $backend" ;;
  *)
    fail "$name: the demo ends with $out"
    tail -n 5 "$work/stderr"
    ;;
  esac
}

# Docker from 25 on, Podman and containerd from 2 on deny io_uring by default.
standard=$(run "$tag" doctor --samples 1 --json 2>"$work/stderr")
case $standard in
*'"backend":{"name":"pool"'*)
  pass "the engine's own profile denies io_uring: $(echo "$standard" | field refused)"
  case $(cat "$work/stderr") in
  *"$denied"* | *"if the kernel has io_uring, $denied"*) pass "and the log says what to change: $denied" ;;
  *)
    fail "the log does not say what to change:"
    cat "$work/stderr"
    ;;
  esac
  demo "the engine's own profile" pool
  ;;
*)
  say note "the own profile of $version allows io_uring; Docker from 25 on denies it"
  demo "the engine's own profile" ring
  ;;
esac
run --security-opt "seccomp=$without" "$tag" doctor --samples 1 --json >/dev/null 2>"$work/stderr"
holds "a profile without io_uring: the log says what to change" "$(cat "$work/stderr")" "$denied"
demo "a profile without io_uring" pool --security-opt "seccomp=$without"
demo "deploy/seccomp-felixd.json" ring --security-opt "seccomp=$profile"
confined=(--security-opt "seccomp=$profile" --security-opt no-new-privileges --cap-drop ALL --read-only --memory 256m)
demo "with a read-only root, no capabilities and 256 MiB" ring "${confined[@]}"

# serve NAME ARGS... starts a server on the volume of the test.
serve() {
  local name=$1
  shift
  "${cli[@]}" run ${options[@]+"${options[@]}"} -d --label "$tag" --name "$tag-$name" --network none -v "$tag-data:/data" "$@" "$tag" \
    serve --fsync on_commit --json >/dev/null
  for _ in $(seq 100); do
    "${cli[@]}" logs "$tag-$name" 2>&1 | grep -q '"event":"ready"' && return
    [ "$(state "$name" Running)" = true ] || break
    sleep 0.2
  done
  fail "$name: the server does not start"
  "${cli[@]}" logs "$tag-$name" 2>&1 | tail -n 20
  return 1
}

state() { "${cli[@]}" inspect --format "{{.State.$2}}" "$tag-$1"; }

# beside NAME ARGS... runs felixd in a container of its own beside a server, with the
# same loopback.
beside() {
  local name=$1
  shift
  "${cli[@]}" run ${options[@]+"${options[@]}"} --rm -i --label "$tag" --network "container:$tag-$name" "$tag" "$@"
}

# threads NAME counts the threads of a server, the kernel's workers of its ring among
# them.
threads() {
  local pid
  pid=$(state "$1" Pid)
  echo "$(ls "/proc/$pid/task" | wc -l) threads, $(cat /proc/"$pid"/task/*/comm 2>/dev/null | grep -c '^iou-wrk' || true) of them the kernel's workers"
}

# stop NAME ends a server in order.
stop() {
  local name=$1 said
  "${cli[@]}" stop -t 45 "$tag-$name" >/dev/null
  said=$("${cli[@]}" logs "$tag-$name" 2>/dev/null | tail -n 2)
  if [ "$(state "$name" ExitCode)" = 0 ] && [[ $said == *'"event":"stopping","reason":"asked to by a signal"'*'"event":"stopped","ok":true,"unsynced_bytes":0'* ]]; then
    pass "$name: SIGTERM ends it in order: exit code 0, $(echo "$said" | tail -n 1)"
  else
    fail "$name: it ends with exit code $(state "$name" ExitCode)"
    "${cli[@]}" logs "$tag-$name" 2>&1 | tail -n 20
  fi
}

# stored NAME N reads N records from the beginning and gives how many there are, each at
# the offset it has to have.
stored() {
  timeout 60 "${cli[@]}" run ${options[@]+"${options[@]}"} --rm --label "$tag" --network "container:$tag-$1" "$tag" subscribe t/default/orders --from 0 --count "$2" --json |
    awk -F'"offset":' '/"event":"record"/ && int($2) == n + 0 { n++ } END { print n + 0 }'
}

acked=0
# load NAME N publishes N records, which are acknowledged once they are durable.
load() {
  local name=$1 n=$2 out
  if out=$(seq "$n" | beside "$name" publish t/default/orders --batch 20 --json 2>&1); then
    acked=$((acked + n))
    pass "$name: $n records acknowledged; $(threads "$name")"
  else
    fail "$name: publishing ends with $out"
  fi
}

# limited NAME BACKEND ARGS... starts a server under limits, publishes, reads everything
# that was ever acknowledged, and ends the server.
limited() {
  local name=$1 backend=$2 found
  shift 2
  serve "$name" "$@" || return 0
  found=$("${cli[@]}" logs "$tag-$name" 2>/dev/null | grep '"event":"storage"' | field backend)
  holds "$name: the backend is the $backend" "${found%%/*}" "$backend"
  beside "$name" streams create t/default/orders >/dev/null
  load "$name" 2000
  found=$(stored "$name" "$acked")
  if [ "$found" = "$acked" ]; then
    pass "$name: all $acked records that were ever acknowledged are read back"
  else
    fail "$name: $found of $acked acknowledged records are read back"
  fi
}

limited plain ring "${confined[@]}" --health-interval 1s
for _ in $(seq 60); do
  # Podman leaves it to systemd to ask; here it is asked to ask.
  [ -z "$podman" ] || "${cli[@]}" healthcheck run "$tag-plain" >/dev/null || true
  health=$(state plain Health.Status)
  [ "$health" = healthy ] && break
  sleep 0.5
done
holds "plain: the health check answers" "$health" healthy
stop plain

# crowd NAME BACKEND ARGS... has 64 publishers on 8 logs under limits. A thread that cannot
# be had is the end of a Go program.
crowd() {
  local name=$1 backend=$2 out status=0
  shift 2
  out=$(run "$@" "$tag" log bench --dir /data/bench --concurrency 64 --logs 8 --records 3000 --warmup-records 100 --fsync on_commit --json 2>"$work/stderr") || status=$?
  if [ "$status" = 0 ]; then
    holds "$name: 64 publishers on 8 logs get through, on the $backend" "$out" '"backend":"'"$backend"
  else
    fail "$name: 64 publishers on 8 logs: exit code $status, $(head -c 300 "$work/stderr")"
  fi
}

# A limit that leaves each thread one worker of the kernel, and one that leaves none.
own=$(($(nproc) + 14))
few=$((2 * own + 3))
none=$((2 * own - 1))
crowd "pids-$few" ring "${confined[@]}" --pids-limit "$few"
crowd "pids-$none" pool "${confined[@]}" --pids-limit "$none"
crowd "pids-$own" pool "${confined[@]}" --pids-limit "$own"
limited "pids-$few" ring "${confined[@]}" --no-healthcheck --pids-limit "$few"
stop "pids-$few"
limited "pids-$none" pool "${confined[@]}" --no-healthcheck --pids-limit "$none"
holds "pids-$none: the log says which limit to raise" "$("${cli[@]}" logs "$tag-pids-$none" 2>&1)" \
  "raise pids.max (now $none; systemd: TasksMax=; Docker: --pids-limit; Kubernetes: podPidsLimit of the kubelet) to at least $((none + 1))"
stop "pids-$none"

# A kill in the middle of publishing, and a start on the same volume.
serve killed "${confined[@]}"
(seq 100000 | beside killed publish t/default/orders --batch 20 --json >"$work/published" 2>&1) &
sleep 2
"${cli[@]}" kill -s KILL "$tag-killed" >/dev/null
wait $! || true
grew=$(awk -F'"last_offset":' -v before="$acked" '/"event":"published"/ { last = int($2) + 1 } END { print last ? last - before : 0 }' "$work/published")
acked=$((acked + grew))
serve after "${confined[@]}"
found=$(stored after "$acked")
if [ "$found" = "$acked" ] && [ "$grew" -gt 0 ]; then
  pass "killed while it was published to: all $acked acknowledged records are there, $grew of them from the last two seconds"
else
  fail "killed while it was published to: $found of $acked acknowledged records, $grew of them from the last two seconds"
  tail -n 3 "$work/published"
fi
stop after

echo "test/docker.sh: $((checks - failures)) of $checks checks hold"
[ "$failures" = 0 ]
