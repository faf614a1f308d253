# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job: which of them this process is, and how their loaders meet to be one cache."""
