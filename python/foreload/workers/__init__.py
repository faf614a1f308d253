# SPDX-License-Identifier: Apache-2.0
"""Worker processes: a crew gets tasks and sends values back through memory that both have mapped.

Nothing here knows data sets or loaders.
"""
