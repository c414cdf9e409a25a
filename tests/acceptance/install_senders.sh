#!/usr/bin/env bash
# Find swaks and Postfix, which send mail to us in tests; install Debian's where we may.
set -u
command -v swaks >/dev/null && command -v postfix >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tests with swaks and Postfix will be skipped: only root can install them with apt-get"
  exit 0
fi
echo "installing swaks and Postfix for the tests …"
# Without a configuration of its own, Postfix is not started; the tests run it from a folder of theirs.
echo "postfix postfix/main_mailer_type select No configuration" | debconf-set-selections 2>/dev/null
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  swaks libnet-ssleay-perl libauthen-sasl-perl postfix; } >/dev/null 2>&1 ||
  echo "tests with swaks and Postfix will be skipped: apt-get could not install them"
exit 0
