// SPDX-License-Identifier: Apache-2.0

// Package results holds the results of measurements: rows in a file of JSON lines, the first of
// which describes the machine and the program, and tables of their medians and ratios.
package results
