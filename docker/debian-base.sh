#!/bin/sh
# Make the base image that docker/Dockerfile names from Debian's packages, for a machine that can install packages but pull no image.
#
#   sudo docker/debian-base.sh podman        (or docker, or any command that takes the same words)
#
# Needs root and debootstrap. The certificates and pip's settings of this machine go into the image, so it stays on this machine.
set -eu
[ $# -gt 0 ] || { echo "usage: $0 podman (or docker)" >&2; exit 2; }
image=$(sed -n 's/^ARG PYTHON_IMAGE=//p' "$(dirname "$0")/Dockerfile")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=python3,python3-dev,python3-pip,python3-venv,ca-certificates trixie "$root" \
	"${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
# As in the image that it stands for: the command is `python`, and pip may install beside Debian's packages.
ln -sf python3 "$root/usr/bin/python"
rm -f "$root"/usr/lib/python3.*/EXTERNALLY-MANAGED
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
rm -rf "$root"/var/cache/apt/archives/*.deb
tar -C "$root" -c . | "$@" import - "docker.io/library/$image"
