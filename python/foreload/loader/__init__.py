# SPDX-License-Identifier: Apache-2.0
"""`foreload.DataLoader` and its parts: what was asked for, iterations, batches, state, figures."""
