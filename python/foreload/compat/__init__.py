# SPDX-License-Identifier: Apache-2.0
"""The ways in which other loaders are used, with foreload behind them."""
