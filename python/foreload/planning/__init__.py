# SPDX-License-Identifier: Apache-2.0
"""The future: which samples are read when and by whom, by foreload's own orders or samplers of the
user's, where a loop stands, and what it costs."""
