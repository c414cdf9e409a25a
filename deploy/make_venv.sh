#!/usr/bin/env bash
# make_venv.sh FOLDER PYTHON: a virtual environment of a Python that mailonce runs on, or a sentence.
set -u
folder=$1 python=$2
fits='import sys; sys.exit(sys.version_info < (3, 11))'
[ -x "$folder/bin/python" ] && "$folder/bin/python" -c "$fits" 2>/dev/null && exit 0
if ! "$python" -c "$fits" 2>/dev/null; then
  command -v "$python" >/dev/null && have="this is $("$python" -V 2>&1 | head -1)" || have="there is no $python"
  for newer in python3.14 python3.13 python3.12 python3.11; do
    if command -v "$newer" >/dev/null && "$newer" -c "$fits" 2>/dev/null; then
      echo "mailonce needs Python 3.11 or later, and $have; run: make serve PYTHON=$newer" >&2
      exit 1
    fi
  done
  echo "mailonce needs Python 3.11 or later, and $have; install one, then: make serve PYTHON=python3.12" >&2
  exit 1
fi
# One that an older Python made is of no use to this one.
rm -rf "$folder"
"$python" -m venv "$folder" || { rm -rf "$folder"; echo "install Python's venv module (Debian: apt install python3-venv)" >&2; exit 1; }
