// SPDX-License-Identifier: Apache-2.0

package bench

// Column is one of the tables of a measurement, and of its rows in the file.
type Column struct{ Name, Means string }

// Columns are those of the tables: what tells rows apart, then what has a table each.
func (m Measurement) Columns() []Column { return columns[m.Name] }

// Columns that more than one measurement has.
const (
	hasBytes   = "bytes of payload"
	hasCPU     = "processor time of all who took part for a million, in seconds"
	hasHow     = "how it dies: kill (SIGKILL), or stop (SIGSTOP, like a host that hangs)"
	hasMB      = "payload that came, in MB a second"
	hasNodes   = "nodes of the cluster"
	hasWorkers = "goroutines side by side, each the next when the last was taken"
)

// columns are those of each measurement: first what tells the rows of its tables apart,
// then what has a table of its own.
var columns = map[string][]Column{
	"failover": {
		{"n", hasNodes},
		{"how", hasHow},
		{"ms", "from the death of the leader until all others see another, with authority"},
	},
	"formation": {
		{"n", hasNodes},
		{"ms", "from the start of the processes until each sees all active under a leader"},
		{"cpu_ms", "processor time of all nodes together for that"},
	},
	"detection": {
		{"n", hasNodes},
		{"how", hasHow},
		{"ms", "from the death of a follower until no other sees it as active"},
	},
	"oneway": {
		{"n", hasNodes},
		{"bytes", hasBytes},
		{"workers", hasWorkers},
		{"msgs_s", "events that the handlers saw, a second"},
		{"mb_s", hasMB},
		{"cpu_s_per_million", hasCPU},
		{"allocs_per_msg", "allocations of sender and receiver for an event"},
	},
	"broadcast": {
		{"n", hasNodes},
		{"bytes", hasBytes},
		{"workers", hasWorkers},
		{"msgs_s", "broadcasts that all others have handled, a second"},
		{"mb_s", "payload of these, each counted once, in MB a second"},
		{"cpu_s_per_million", hasCPU},
		{"allocs_per_msg", "allocations of all nodes for a broadcast"},
	},
	"request": {
		{"n", hasNodes},
		{"bytes", hasBytes},
		{"workers", hasWorkers},
		{"calls_s", "requests that were answered, a second"},
		{"p50_us", "microseconds from call to return, half take no longer"},
		{"p99_us", "microseconds from call to return, 99 of 100 take no longer"},
		{"cpu_s_per_million", hasCPU},
		{"allocs_per_call", "allocations of both nodes for a request"},
	},
	"stream": {
		{"n", hasNodes},
		{"bytes", "bytes of each write"},
		{"workers", "streams side by side, each written by a goroutine"},
		{"mb_s", "what was read, in MB a second"},
		{"cpu_s_per_gb", "processor time of both nodes for a GB, in seconds"},
		{"allocs_per_mb", "allocations of both nodes for a MB"},
	},
	"jobs": {
		{"n", "nodes of the cluster, each of which opens all jobs"},
		{"jobs", "how many jobs"},
		{"ms", "from the order to open them until the last node sees all jobs led"},
		{"commits_per_job", "commits that all nodes asked for, for each job; the least is 1"},
	},
	"holder": {
		{"n", "nodes of the cluster, each of which contends for the one job"},
		{"how", "kill: SIGKILL for the leader of the job; cut: it lives, and reaches nobody"},
		{"leads", "what that node led: the job alone, or the job and the cluster"},
		{"ms", "from kill or cut until another node leads the job"},
		{"gap_ms", "from when the last leadership was over until the next: nobody leads; for " +
			"kill the same as ms"},
	},
	"locks": {
		{"n", hasNodes},
		{"clients", "goroutines on all nodes together; each takes and drops a record of its own"},
		{"locks_s", "records that were taken and dropped, a second, on all nodes together"},
		{"p50_us", "microseconds to take one and drop it, on one node, half take no longer"},
		{"p99_us", "microseconds to take one and drop it, on one node, 99 of 100 take no longer"},
	},
	"group": {
		{"n", hasNodes},
		{"what", "take-over: the leader is killed; heal: two parts, each with a leader, meet"},
		{"ms", "from then until all nodes that live follow the same leader, with a fifth of " +
			"the default times of Lowest"},
	},
	"idle": {
		{"n", hasNodes},
		{"role", "leader, follower, or mean: of all nodes"},
		{"cpu_percent", "processor time of a node, in percent of one processor"},
		{"rss_mib", "memory of a node, in MiB"},
	},
}
