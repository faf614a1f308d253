# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of zip_fuzz.cc into the folder given.

They are small archives, with and without 64-bit fields.
"""

import sys
import zipfile

for number, force_zip64 in enumerate((False, True)):
    with zipfile.ZipFile(f"{sys.argv[1]}/{number}.zip", "w") as archive:
        for name in ("a/1.jpg", "b/2.jpg"):
            with archive.open(name, "w", force_zip64=force_zip64) as member:
                member.write(b"bytes")
        archive.comment = b"comment"
