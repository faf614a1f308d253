# SPDX-License-Identifier: Apache-2.0
"""What is said about runs: verdicts, the loop's times, progress bars, run files and pictures.

The programs `foreload plot`, `report` and `watch` are modules beside this folder.
"""
