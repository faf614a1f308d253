// SPDX-License-Identifier: Apache-2.0
//
// A module of the border before this one: all that is known of it is its first field.
extern "C" __attribute__((visibility("default"))) const int foreload_transport_component = 4;
