// Where on the timeline to look first: at what the first finding tells of.

const CALLS_BEFORE = 10;  // of a rank, that are seen before the fault

// {from, to, fault} in nanoseconds since the origin; fault: when it showed, null where nothing is wrong.
function focusOf(job, processes, first, last) {
  const finding = job.diagnosis.findings[0];
  const whole_job = {from: first, to: last, fault: null, name: finding && finding.effect ? "onset" : "fault"};
  if (!finding) return whole_job;
  const fault = faultOf(finding, job, processes);
  if (fault === null || fault <= first || fault > last) return {...whole_job, fault};
  const from = startBefore(finding, processes, fault, first);
  return {...whole_job, fault, from, to: Math.min(last, fault + Math.max(1.2 * (fault - from), 1000))};
}

function faultOf(finding, job, processes) {
  if (finding.onset) return instantOf(finding.onset.at, processes);
  if (finding.communicator && finding.position !== null) {
    const members = membersAt(processes, finding.communicator.id, finding.position);
    if (members.length > 0) return Math.min(...members.map(({process, i}) => process.start[i]));
  }
  return instantOf(finding.began_at, processes);
}

function instantOf(text, processes) {
  const at = Date.parse(text);
  return isNaN(at) || processes.length === 0 ? null : Number(BigInt(at) * 1000000n - processes[0].origin);
}

// Some calls before the fault, of a rank that made them.
function startBefore(finding, processes, fault, first) {
  const wanted = finding.onset ? 4 * CALLS_BEFORE : CALLS_BEFORE;
  let from = first;
  for (const rank of [...finding.victims, ...finding.culprits]) {
    const process = processes.find((one) => one.rank === rank);
    const i = process ? process.from(fault) - wanted : -1;
    if (i >= 0) return process.start[i];
    if (process && process.calls > 0) from = process.start[0];
  }
  return Math.min(from, fault - 1000);
}

// Ranks without the call that the others wait in: {rank, from, to, text}.
function missingOf(job, processes) {
  const missing = [];
  for (const finding of job.diagnosis.findings)
    for (const call of finding.calls) {
      if (call.state !== "not_called") continue;
      const members = membersAt(processes, call.communicator, call.position);
      if (members.length === 0) continue;
      const from = Math.min(...members.map(({process, i}) => process.start[i]));
      const to = Math.max(...members.map(({process, i}) => process.end[i]), from);
      const what = members[0].process.of(members[0].i).op;
      for (const rank of call.ranks) missing.push({rank, from, to, text: `has not called ${what} #${call.position}`});
    }
  return missing;
}
