// SPDX-License-Identifier: Apache-2.0

// Package results holds the results of measurements: rows in a file of JSON lines, and tables of
// their medians and ratios. The first row describes the machine and the program.
package results
