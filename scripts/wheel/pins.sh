# SPDX-License-Identifier: Apache-2.0
# What a wheel is built for and from. Sourced by the scripts of this folder.
# shellcheck shell=bash disable=SC2034

# The oldest C library that a wheel works with: that of manylinux_2_28, where torch's wheels begin.
glibc=2.28
platform=manylinux_2_28_x86_64

# libjpeg-turbo lies unchanged in a source distribution at PyPI. Those stay for ever; Debian's stable
# suites have 2.1.5, and its unstable one replaces a version by the next.
jpeg_sdist=simplejpeg-1.9.0.tar.gz
jpeg_sha256=5ac7d9489eeb812c2e7ea5c283994a29d9fefdfe5ed7b86c09d485e0dd366689
jpeg_folder=simplejpeg-1.9.0/lib/libjpeg-turbo-3.1.2
# libdeflate likewise.
deflate_sdist=deflate-0.9.0.tar.gz
deflate_sha256=962e0a6f1ea3a94b900a8ea0ce138fa92bfcbafda5b86367104a259ffcd3462b
deflate_folder=deflate-0.9.0/libdeflate

# Source packages of a stable suite of Debian: the original sources are fixed here; Debian's patches
# come on top, with security fixes of today, and apt checks their signature.
debian_suite=trixie
zlib_origin=zlib_1.3.dfsg+really1.3.1.orig.tar.gz
zlib_sha256=60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb
webp_origin=libwebp_1.5.0.orig.tar.gz
webp_sha256=7d6fab70cf844bf6769077bd5d7a74893f8ffd4dfb42861745750c63c2a5c92c
uring_origin=liburing_2.9.orig.tar.gz
uring_sha256=57e9b36e4ac1e46b8e0351dfb1694dc59638fc25e384b4ba36d87b800b16db1a
