#!/usr/bin/env bash
# Packs what `make dist` built into BUILD/llm-VERSION-linux-ARCH.tar.gz. The same commit gives the
# same bytes. usage: scripts/dist.sh BUILD VERSION ARCH, or dist.sh --check
set -euo pipefail
cd "$(dirname "$0")/.."

# --check: are the static libraries there?
if [ "${1-}" = --check ]; then
  missing=()
  for name in edit:libedit-dev tinfo:libncurses-dev bsd:libbsd-dev md:libmd-dev; do
    archive=lib${name%%:*}.a
    # The compiler prints a path where it finds the file, else just the name.
    [ "$("${CXX:-g++}" -print-file-name="$archive")" != "$archive" ] ||
      missing+=("$archive (Debian package ${name#*:})")
  done
  [ ${#missing[@]} = 0 ] && exit
  printf 'dist: needed to link them in: %s\n' "${missing[@]}" >&2
  exit 1
fi

build=$1 version=$2 arch=$3
name=llm-$version-linux-$arch
tree=$build/dist/$name
rm -rf "$tree"
mv "$build/dist/tree" "$tree"
strip -o "$tree/bin/llm" "$build/dist/llm"
for file in README.md CHANGELOG.md LICENSE*; do
  [ -e "$file" ] && cp "$file" "$tree/"
done

# The newest symbol version that the program asks of libc.
glibc=$(objdump -T "$tree/bin/llm" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -Vu | tail -1)
cat >"$tree/INSTALL" <<END
llm $version for Linux on $arch, with glibc $glibc or later.

Nothing needs to be installed: run bin/llm from wherever this folder lies, or copy bin, libexec and
share into /usr/local or ~/.local, which also brings \`man llm\` and completion in bash, zsh and fish.
END

find "$tree" -type d -exec chmod 755 {} +
find "$tree" -type f -perm /111 -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
archive=$build/$name.tar.gz
tar -C "$build/dist" --sort=name --mtime="@$(git log -1 --format=%ct)" --owner=0 --group=0 \
  --numeric-owner -cf - "$name" | gzip -9n >"$archive"
echo "$archive: $(du -h "$archive" | cut -f1), needs glibc $glibc"
