#!/usr/bin/env bash
# Builds Dockerfile.linux and holds what docs/containers.md says against real containers:
# the seccomp profiles, a read-only root, an ordinary user, limits on memory and
# processes, the health check, the end. One line for each thing that was seen; the exit
# code is not 0 when one was not, and 3 when the engine of --start does not start.
#
#   test/docker.sh                      # with the engine that runs: Docker, else Podman
#   test/docker.sh --start              # starts a Docker engine of its own where none runs (root)
#   test/docker.sh --image NAME         # builds nothing: the image is there
#   test/docker.sh --binary FELIXD      # builds the last stage alone, around a program that is there
#   BUILD_IMAGE=… RUN_IMAGE=… test/docker.sh
#   CONTAINER_CLI="podman --runtime runc" RUN_OPTIONS="--ulimit nofile=20000:20000" test/docker.sh
#
# Where no engine runs it prints "skipped: …" and exits 0; with --start, an engine that is
# there and does not start is a failure. Where no registry answers, it builds on an image
# made of this machine's Go and BusyBox, and runs on scratch. It removes what it made.
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
not_started=
# The images that are this test's own, the last one first.
images=()
# The engine's command, and what every container is started with.
read -ra cli <<<"${CONTAINER_CLI:-}"
read -ra options <<<"${RUN_OPTIONS:-}"

skip() {
  echo "skipped: $*"
  exit 0
}

# last_word TEXT gives the last line of what an engine's client printed that says what is
# wrong: behind it Docker's says that it could not say more.
last_word() {
  local line last=
  while read -r line; do
    case $line in
    "" | "errors pretty printing info") ;;
    *) last=$line ;;
    esac
  done <<<"$1"
  echo "$last"
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
    "${cli[@]}" ps -aq --filter "label=$tag" | xargs -r "${cli[@]}" rm -f -v >/dev/null 2>&1 || true
    "${cli[@]}" volume rm -f "$tag-data" >/dev/null 2>&1 || true
    [ "${#images[@]}" = 0 ] || "${cli[@]}" image rm "${images[@]}" >/dev/null 2>&1 || true
  fi
  if [ -n "$engine_pid" ]; then
    kill "$engine_pid" 2>/dev/null && wait "$engine_pid" 2>/dev/null || true
    # What the engine mounted goes with it; a mount that stays keeps its directory.
    awk -v at="$work/" 'index($2, at) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount 2>/dev/null || true
  fi
  # What is still mounted is not this test's to empty.
  rm -rf --one-file-system "$work" 2>/dev/null || echo "$work stays" >&2
  exit "$status"
}
trap clean EXIT

# start_engine runs dockerd for this test alone: its own data, no network of its own. It
# returns 1 and says why in not_started where that cannot be tried; an engine that is
# tried and does not start is the end.
start_engine() {
  local name
  for name in dockerd docker; do
    command -v "$name" >/dev/null || {
      not_started="$name is not installed"
      return 1
    }
  done
  [ "$(id -u)" = 0 ] || {
    not_started="only root starts dockerd"
    return 1
  }
  export DOCKER_HOST=unix://$work/docker.sock
  dockerd --iptables=false --ip6tables=false --bridge=none --data-root="$work/data" --exec-root="$work/exec" \
    --pidfile="$work/docker.pid" -H "$DOCKER_HOST" >"$work/dockerd.log" 2>&1 &
  engine_pid=$!
  for _ in $(seq 240); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$engine_pid" 2>/dev/null || break
    sleep 0.5
  done
  fail "dockerd starts; its last lines:"
  tail -n 20 "$work/dockerd.log"
  exit 3
}

if [ "${#cli[@]}" -gt 0 ]; then
  "${cli[@]}" info >/dev/null
elif no_docker=$(docker info 2>&1); then
  cli=(docker)
elif [ -n "$start" ] && start_engine; then
  cli=(docker)
elif no_podman=$(podman info 2>&1); then
  cli=(podman)
else
  hint="test/docker.sh --start starts one as root where dockerd is installed"
  skip "no container engine runs here (docker info: $(last_word "$no_docker"); podman info: $(last_word "$no_podman")); ${not_started:-$hint}"
fi
format=()
# Whether this engine keeps the stages of a build as images.
stages_stay=
case ${cli[0]} in
*podman)
  podman=yes stages_stay=yes
  version=$("${cli[@]}" --version)
  format=(--format docker) # the other has no health check
  ;;
*)
  podman=
  version="Docker $("${cli[@]}" version --format '{{.Server.Version}}')"
  "${cli[@]}" buildx version >/dev/null 2>&1 || {
    export DOCKER_BUILDKIT=0
    stages_stay=yes
  }
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
  images=("$tag:base" ${images[@]+"${images[@]}"})
  rm -rf "$root"
}

# build_image ARGS... makes the test's image. A stage that stays gets a name, to be removed
# by.
build_image() {
  local target
  for target in ${stages_stay:+build} ""; do
    "${cli[@]}" build ${format[@]+"${format[@]}"} ${target:+--target "$target"} -t "$tag${target:+:$target}" "$@" >"$work/build.log" 2>&1 || {
      tail -n 30 "$work/build.log"
      fail "the image is built"
      exit 1
    }
    images=("$tag${target:+:$target}" ${images[@]+"${images[@]}"})
  done
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
  build_image "$at"
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
  build_image ${network[@]+"${network[@]}"} -f Dockerfile.linux --build-arg "BUILD_IMAGE=$BUILD_IMAGE" --build-arg "RUN_IMAGE=${RUN_IMAGE:-scratch}" \
    --build-arg VERSION=0.0.0-docker .
  pass "the image is built on $BUILD_IMAGE for ${RUN_IMAGE:-scratch}, in $((SECONDS - began)) s"
}

if [ -n "$image" ]; then
  # The other name is this test's, where it is another one.
  case $image in
  "$tag" | "$tag:latest" | "localhost/$tag" | "localhost/$tag:latest") ;;
  *)
    "${cli[@]}" tag "$image" "$tag"
    images=("$tag" ${images[@]+"${images[@]}"})
    ;;
  esac
elif [ -n "$binary" ]; then
  build_last
else
  build
fi

# run ARGS... runs a container of the image that is gone afterwards, with no network but
# its own loopback.
run() { "${cli[@]}" run ${options[@]+"${options[@]}"} --rm --label "$tag" --network none "$@"; }

# field NAME cuts a text field of an event out of what was printed.
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
  holds "and the log says what to change: $denied" "$(cat "$work/stderr")" "$denied"
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

# threads NAME LIMIT counts the threads of a server, the kernel's workers of its ring
# among them, and holds that they are within a limit, where there is one.
threads() {
  local name=$1 limit=$2 pid count text
  pid=$(state "$name" Pid)
  count=$(ls "/proc/$pid/task" | wc -l)
  text="$count threads, $(cat /proc/"$pid"/task/*/comm 2>/dev/null | grep -c '^iou-wrk' || true) of them the kernel's workers"
  if [ -z "$limit" ]; then
    say note "$name: $text"
  elif [ "$count" -gt 0 ] && [ "$count" -le "$limit" ]; then
    pass "$name: $text, within the limit of $limit"
  else
    fail "$name: $text, and the limit is $limit"
  fi
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

# kill_now NAME ends a server where it stands.
kill_now() { "${cli[@]}" kill -s KILL "$tag-$1" >/dev/null; }

# stored NAME N reads N records from the beginning and gives how many there are, each at
# the offset it has to have.
stored() {
  timeout 60 "${cli[@]}" run ${options[@]+"${options[@]}"} --rm --label "$tag" --network "container:$tag-$1" "$tag" subscribe t/default/orders --from 0 --count "$2" --json |
    awk -F'"offset":' '/"event":"record"/ && int($2) == n + 0 { n++ } END { print n + 0 }'
}

# wants_all NAME WHEN reads everything that was ever acknowledged.
wants_all() {
  local found
  found=$(stored "$1" "$acked")
  if [ "$found" = "$acked" ]; then
    pass "$2: all $acked records that were ever acknowledged are read back"
  else
    fail "$2: $found of $acked acknowledged records are read back"
  fi
}

acked=0
# load NAME N publishes N records, which are acknowledged once they are durable.
load() {
  local name=$1 n=$2 out
  if out=$(seq "$n" | beside "$name" publish t/default/orders --batch 20 --json 2>&1); then
    acked=$((acked + n))
    pass "$name: $n records acknowledged"
  else
    fail "$name: publishing ends with $out"
  fi
}

# under_load NAME COMMAND... runs a command that ends a server, while that is published
# to. What was acknowledged until then counts.
under_load() {
  local name=$1 publisher grew
  shift
  : >"$work/published"
  (seq 1000000 | beside "$name" publish t/default/orders --batch 20 --json >"$work/published" 2>&1) &
  publisher=$!
  for _ in $(seq 300); do
    [ "$(grep -c '"event":"published"' "$work/published")" -lt 50 ] || break
    kill -0 "$publisher" 2>/dev/null || break
    sleep 0.1
  done
  kill -0 "$publisher" 2>/dev/null || fail "$name: it is not published to any more when it is ended"
  "$@"
  wait "$publisher" || true
  grew=$(awk -F'"last_offset":' -v before="$acked" '/"event":"published"/ { last = int($2) + 1 } END { print last ? last - before : 0 }' "$work/published")
  acked=$((acked + grew))
  if [ "$grew" -gt 0 ]; then
    pass "$name: $grew records were acknowledged before it was gone"
  else
    fail "$name: nothing was acknowledged before it was gone"
    tail -n 3 "$work/published"
  fi
}

# limited NAME BACKEND LIMIT ARGS... starts a server under limits, publishes, and reads
# everything that was ever acknowledged. LIMIT is of its threads, or empty.
limited() {
  local name=$1 backend=$2 limit=$3 found
  shift 3
  serve "$name" ${limit:+--pids-limit "$limit"} "$@" || return 0
  found=$("${cli[@]}" logs "$tag-$name" 2>/dev/null | grep '"event":"storage"' | field backend)
  holds "$name: the backend is the $backend" "${found%%/*}" "$backend"
  beside "$name" streams create t/default/orders >/dev/null
  load "$name" 2000
  threads "$name" "$limit"
  wants_all "$name" "$name"
}

limited plain ring "" "${confined[@]}" --health-interval 1s
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
limited "pids-$few" ring "$few" "${confined[@]}" --no-healthcheck
stop "pids-$few"
limited "pids-$none" pool "$none" "${confined[@]}" --no-healthcheck
holds "pids-$none: the log says which limit to raise" "$("${cli[@]}" logs "$tag-pids-$none" 2>&1)" \
  "raise pids.max (now $none; systemd: TasksMax=; Docker: --pids-limit; Kubernetes: podPidsLimit of the kubelet) to at least $((none + 1))"
stop "pids-$none"

# An end in order and a kill, each in the middle of publishing and with a start on the same
# volume after it.
serve drained "${confined[@]}"
under_load drained stop drained
serve killed "${confined[@]}"
wants_all killed "after SIGTERM while it was published to"
under_load killed kill_now killed
serve after "${confined[@]}"
wants_all after "after a kill while it was published to"
stop after

echo "test/docker.sh: $((checks - failures)) of $checks checks hold"
[ "$failures" = 0 ]
