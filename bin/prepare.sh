# Sourced by bin/up, bin/test and bin/bench: finds or installs what build and run need.
# Says what it does; what it can't install it names, with the one command to run.

say() { printf '%s\n' "$*" >&2; }
die() { say ""; say "error: $1"; [ $# -lt 2 ] || say "  next: $2"; exit 1; }

# The oldest Rust that builds this (Cargo.toml's rust-version).
rust_floor=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

need_rust() {
  if ! command -v cargo >/dev/null 2>&1 && [ -r "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi
  command -v cargo >/dev/null 2>&1 ||
    die "Rust isn't installed" "install rustup (https://rustup.rs), then run this again"
  local have
  have=$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/\1/p')
  [ -n "$have" ] || die "rustc doesn't answer" "rustup default stable"
  [ "$(printf '%s\n%s\n' "$rust_floor" "$have" | sort -V | head -n 1)" = "$rust_floor" ] ||
    die "Rust $have is too old: $rust_floor or newer is needed" "rustup update stable"
}

# apt_install PACKAGE…: installs what is missing, through sudo where we aren't root.
apt_install() {
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null 2>&1 || die "missing: $*" "install them with your system's package tool"
  local as=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || die "missing: $*" "as root: apt-get install -y $*"
    as=(sudo)
    say "Installing with apt (sudo may ask for your password): $*"
  else
    say "Installing with apt: $*"
  fi
  local log
  log=$(mktemp)
  { "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    rm -f "$log"
    die "apt could not install: $*" "apt-get update && apt-get install -y $*"
  }
  rm -f "$log"
}

has_postgres_server() {
  [ -n "${MULTICA_PG_BIN:-}" ] && [ -x "$MULTICA_PG_BIN/initdb" ] && return 0
  local dir
  for dir in $(printf '%s' "$PATH" | tr ':' ' ') /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
    [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] && return 0
  done
  return 1
}

# need_tools: everything that `multica up` itself needs.
need_tools() {
  local missing=()
  command -v git >/dev/null 2>&1 || missing+=(git)
  command -v cc >/dev/null 2>&1 || missing+=(gcc libc6-dev)
  has_postgres_server || missing+=(postgresql)
  apt_install "${missing[@]}"
  has_postgres_server || die "no PostgreSQL server found" "apt-get install -y postgresql"
}
