// SPDX-License-Identifier: Apache-2.0
//
// libjpeg with its insides. Where it keeps its decoders is not part of its public interface; Debian
// and others ship the header that shows it. Without that, FORELOAD_JPEG_INSIDE is 0 and libjpeg
// decodes alone, with the same result.
#pragma once

// libjpeg's header needs these before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#if __has_include(<jpegint.h>)
#include <jpegint.h>
#define FORELOAD_JPEG_INSIDE 1
#else
#define FORELOAD_JPEG_INSIDE 0
#endif
