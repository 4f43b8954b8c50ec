// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ChildAttributes starts a process in its own group. When its parent exits, the kernel sends it the
// given signal, even if the process is paused.
func ChildAttributes(orphaned syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
}

// adoptOrphans makes this process the parent of descendants whose parent exits, so that it can reap
// them. A zombie would keep its process group from becoming empty.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // fails on no supported kernel
}

// adoptedGroups lists the process groups of the children of this process.
func adoptedGroups() (groups []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children") // missing if the kernel has no such file
	for _, name := range files {
		text, _ := os.ReadFile(name) // the thread may have ended
		for field := range strings.FieldsSeq(string(text)) {
			pid, _ := strconv.Atoi(field)
			if group, err := syscall.Getpgid(pid); err == nil {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// unwritten matches the mappings of files in /proc/self/smaps that this process cannot write and
// has not written, such as the code of the program.
var unwritten = regexp.MustCompile(
	`(?m)^([0-9a-f]+)-([0-9a-f]+) r-.p .* /.*\n(?:[A-Z].*\n)*?Anonymous: +0 kB$`)

// shrinkMemory gives memory back that a process does not need while it waits. The pages of the
// program remain in the cache of the system, which maps them again when they are used.
func shrinkMemory() {
	smaps, _ := os.ReadFile("/proc/self/smaps") // without it, less memory is given back
	for _, m := range unwritten.FindAllStringSubmatch(string(smaps), -1) {
		from, _ := strconv.ParseUint(m[1], 16, 64)
		to, _ := strconv.ParseUint(m[2], 16, 64)
		_, _, _ = syscall.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
	}
	debug.FreeOSMemory()
}
