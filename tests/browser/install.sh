#!/usr/bin/env bash
# Find a Chromium for the browser tests; install Debian's where there is none and we may.
set -u
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "browser tests will be skipped: no Chromium, and only root can install it with apt-get"
  exit 0
fi
echo "installing Chromium for the browser tests …"
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
  >/dev/null 2>&1 || echo "browser tests will be skipped: apt-get could not install chromium"
exit 0
