#!/usr/bin/env bash
# Installs what the build and the tests need and this machine lacks (Debian 12+, Ubuntu 24.04+).
# Does nothing, and needs no network, when all is there. usage: scripts/setup.sh
set -euo pipefail

has_header() { # looks where the compiler looks
  echo "#include <$1>" | "${CXX:-g++}" -x c++ -std=c++20 -fsyntax-only - 2>/dev/null
}

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }
need_header() { has_header "$1" || missing+=("$2"); }

need_command g++ g++
need_command make make
need_command git git
need_command xz xz-utils
need_command curl curl # for `llm get`
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || missing+=(ca-certificates)
if command -v "${CXX:-g++}" >/dev/null; then
  # One compilation for the usual case that all are there.
  if ! printf '#include <%s>\n' CLI/CLI.hpp fmt/format.h nlohmann/json.hpp doctest/doctest.h \
    editline/readline.h histedit.h | "${CXX:-g++}" -x c++ -std=c++20 -E - >/dev/null 2>&1; then
    need_header CLI/Version.hpp libcli11-dev
    need_header fmt/core.h libfmt-dev
    need_header nlohmann/json_fwd.hpp nlohmann-json3-dev
    need_header doctest/doctest.h doctest-dev
    need_header histedit.h libedit-dev
  fi
else
  missing+=(libcli11-dev libfmt-dev nlohmann-json3-dev doctest-dev libedit-dev)
fi
# The emulator of CUDA kernels is built where CUDA's headers are.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ "${CUDA:-auto}" != 0 ] && [ -e "${CUDA_HOME:-${nvcc%/bin/nvcc}}/include/cuda_runtime_api.h" ]; then
  [ -e /usr/include/boost/context/detail/fcontext.hpp ] ||
    need_header boost/context/detail/fcontext.hpp libboost-context-dev
fi

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here. Please install what these Debian packages hold: ${missing[*]}" >&2
    exit 1
  fi
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: not root and no sudo. As root: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq
    --no-install-recommends "${missing[@]}")
  # Package lists may be absent or old: fetch them only if the first try fails.
  if ! "${install[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update -qq
    "${install[@]}" >/dev/null
  fi
fi

if [ -e /proc/driver/nvidia/version ] && [ "${CUDA:-auto}" != 0 ] &&
  ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  echo "setup: there is an NVIDIA driver but no nvcc, so the build will be CPU-only." \
    "For the GPU install NVIDIA's CUDA toolkit, 12.0 or newer (distributions have older ones)."
fi
