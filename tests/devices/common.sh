# shellcheck shell=bash
# What both set-ups do: sourced, with $here the folder of the scripts.

# Install the Debian packages that are missing, quietly.
ensure() {
  local missing=()
  for package in "$@"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] || { apt-get -qq update && apt-get -qq install -y --no-install-recommends "${missing[@]}"; } >/dev/null
}
export DEBIAN_FRONTEND=noninteractive

# The mirror that this machine's apt takes Debian from.
debian_mirror() {
  { grep -srhoE '^(URIs: |deb )\S+' /etc/apt/sources.list /etc/apt/sources.list.d/ || true; } |
    grep -v security | grep debian | head -1 | sed -E 's/^(URIs: |deb )//'
}

# shim SOURCE FOLDER: FOLDER becomes a copy of the Chromium in SOURCE whose WebGPU goes to Mesa.
# Dawn opens the libvk_swiftshader.so beside the executable; ANGLE finds the real one through
# vk_swiftshader_icd.json.
shim() {
  rm -rf "$2"
  cp -a "$1" "$2"
  mv "$2/libvk_swiftshader.so" "$2/libvk_swiftshader_real.so"
  gcc -O2 -shared -fPIC -fvisibility=hidden -o "$2/libvk_swiftshader.so" "$here/lavapipe_shim.c" -ldl
  sed -i 's#\./libvk_swiftshader\.so#./libvk_swiftshader_real.so#' "$2/vk_swiftshader_icd.json"
}
