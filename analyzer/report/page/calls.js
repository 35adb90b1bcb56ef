// The recorded calls: columns of numbers, unpacked into typed arrays (analyzer/report/call_columns.h writes them).

const COLUMNS = ["entered", "took", "slot", "shape", "position", "group", "count", "bytes", "root", "kernel"];

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// `count` zigzag numbers of 7 bits a byte.
function numbersOf(bytes, at, count) {
  const numbers = new Float64Array(count);
  for (let i = 0; i < count; ++i) {
    let byte = bytes[at++], value = byte & 127, scale = 128;
    while (byte > 127) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    }
    numbers[i] = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
  return numbers;
}

class Process {
  // `origin`: nanoseconds since 1970 from which the page counts, a BigInt.
  constructor(head, bytes, at, origin) {
    this.rank = head.rank;
    this.host = head.host;
    this.pid = head.pid;
    this.calls = head.calls;
    this.origin = origin;
    this.until = Number(BigInt(head.until_ns) - origin);
    this.lines = head.shapes;
    this.shapes = head.shapes.map((line) => shapeOf(JSON.parse(line)));
    this.raw = {};
    COLUMNS.forEach((name, i) => {
      if (head.lengths[i] > 0) this.raw[name] = numbersOf(bytes, at, head.calls);
      at += head.lengths[i];
    });
    this.sum(Number(BigInt(head.first_ns) - origin), head.slot);
  }

  // From differences to what they tell.
  sum(first, slot) {
    const {entered, took, slot: slots, shape, position} = this.raw;
    const n = this.calls, next = this.shapes.map((one) => one.position ?? 0);
    this.start = new Float64Array(n);  // nanoseconds since the origin
    this.end = new Float64Array(n);
    this.shape = new Uint32Array(n);
    this.seq = new Float64Array(n);
    this.position = new Float64Array(n);
    this.pendings = new Set();  // calls that have not ended
    this.longest = 0;    // of the others
    let at = first;
    for (let i = 0; i < n; ++i) {
      at += entered ? entered[i] : 0;
      slot += slots ? slots[i] : 0;
      const of = shape ? shape[i] : 0, known = this.shapes[of], lasted = took ? took[i] : 0;
      const where = next[of] + (position ? position[i] : 0);
      this.start[i] = at;
      this.shape[i] = of;
      this.seq[i] = slot++;
      this.position[i] = known.position === null ? NaN : where;
      next[of] = where + 1;
      this.end[i] = known.pending ? Math.max(this.until, at) : at + Math.max(0, lasted);
      if (known.pending) this.pendings.add(i);
      else if (lasted > this.longest) this.longest = lasted;
    }
    delete this.raw.entered;
    delete this.raw.slot;
    delete this.raw.shape;
    delete this.raw.position;
  }

  // It was still waiting at `time`, whatever became of the call later: an abort ends calls too.
  waitsUntil(i, time) {
    this.pendings.add(i);
    this.end[i] = Math.max(this.end[i], time);
  }

  // First call that starts at `time` or later.
  from(time) {
    let low = 0, high = this.calls;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  of(i) {
    return this.shapes[this.shape[i]];
  }

  // The rank in the communicator that a message goes to, or comes from.
  peer(i) {
    return this.of(i).peer + (this.raw.root ? this.raw.root[i] : 0);
  }

  // As a line of `ncclwatch trace --json` tells it.
  row(i) {
    const row = JSON.parse(this.lines[this.shape[i]]), raw = this.raw, time = this.origin + BigInt(this.start[i]);
    const plus = (key, column) => {
      if (row[key] !== null && raw[column]) row[key] += raw[column][i];
    };
    const took = raw.took ? raw.took[i] : 0, has_returned = row.state !== "entered";
    row.time = utcText(time, 3);
    row.time_ns = time;
    row.entered = utcText(time);
    row.returned = has_returned ? utcText(time + BigInt(took)) : null;
    row.seq = row.slot = this.seq[i];
    if (row.position !== null) row.position = this.position[i];
    if (row.group !== null) row.group = this.seq[i] - raw.group[i];
    plus("count", "count");
    plus("bytes", "bytes");
    plus(row.root !== null ? "root" : "peer", "root");
    row.duration_s = Math.max(0, row.pending ? this.until - this.start[i] : took) / 1e9;
    if (row.kernel) row.kernel.duration_s = raw.kernel ? raw.kernel[i] / 1e9 : 0;
    return row;
  }
}

const KIND = {collective: 0, message: 1, other: 2};

// What drawing asks of a call.
function shapeOf(row) {
  const kind = row.peer !== null ? KIND.message : row.bytes !== null ? KIND.collective : KIND.other;
  return {op: row.op, kind, pending: row.pending, failed: row.state === "failed", position: row.position,
          communicator: row.communicator, label: row.label, member: row.communicator_rank, peer: row.peer};
}

// In order of ranks. `told` is called with the share that is done.
async function readCalls(job, told) {
  const processes = [], origin = BigInt(job.calls.first_ns);
  for (let block = 0; ; ++block) {
    const element = document.getElementById(`calls-${block}`);
    if (!element) break;
    const bytes = await inflated(bytesOfBase64(element.textContent.trim()));
    element.remove();
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const heads = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let at = 4 + length;
    for (const head of heads) {
      processes.push(new Process(head, bytes, at, origin));
      at += head.lengths.reduce((a, b) => a + b, 0);
    }
    told(processes.length);
    await new Promise((resume) => setTimeout(resume));
  }
  return processes.sort((a, b) => a.rank - b.rank || a.pid - b.pid);
}

// Calls that somebody was found waiting in are open until the verdict.
function openWaits(job, processes) {
  const of_rank = new Map(processes.map((process) => [process.rank, process]));
  for (const {ranks, waits} of job.waits.groups)
    for (const wait of waits) {
      const wanted = (shape) => shape.communicator === wait.communicator && shape.op === wait.op;
      for (const process of ranks.map((rank) => of_rank.get(rank)).filter(Boolean)) {
        const i = lastOf(process, wanted, (at) => process.position[at] === wait.position);
        if (i >= 0) process.waitsUntil(i, Number(BigInt(job.judged_ns) - process.origin));
      }
    }
}

// The calls that belong together with one: of a collective those at its position, of a message its other side.
function membersOf(processes, process, i) {
  const {communicator, kind} = process.of(i);
  if (kind === KIND.collective) return membersAt(processes, communicator, process.position[i]);
  const partner = kind === KIND.message ? otherSide(processes, process, i) : null;
  return partner ? [{process, i}, partner] : [{process, i}];
}

// All recorded calls at this position of the communicator, one a rank.
function membersAt(processes, communicator, position) {
  const wanted = (one) => one.communicator === communicator && one.kind === KIND.collective;
  return processes.flatMap((process) => {
    const i = lastOf(process, wanted, (at) => process.position[at] === position);
    return i < 0 ? [] : [{process, i}];
  });
}

// The call of the peer, which has the same position among those between the two.
function otherSide(processes, process, i) {
  const own = process.of(i), peer = process.peer(i), position = process.position[i];
  const wanted = (one) => one.communicator === own.communicator && one.kind === KIND.message && one.member === peer && one.op !== own.op;
  for (const other of processes) {
    const at = lastOf(other, wanted, (one) => other.position[one] === position && other.peer(one) === own.member);
    if (at >= 0) return {process: other, i: at};
  }
  return null;
}

// The newest call whose shape and number are wanted, or -1.
function lastOf(process, wantsShape, wants) {
  const shapes = process.shapes.map(wantsShape);
  if (!shapes.includes(true)) return -1;
  for (let i = process.calls - 1; i >= 0; --i)
    if (shapes[process.shape[i]] && wants(i)) return i;
  return -1;
}
