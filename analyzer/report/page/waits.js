// Who waits for whom: boxes of ranks that wait alike, and arrows to those that they wait for.

const LONG_S = 1;  // a healthy job's shorter waits are those of every step
const NOBODY_WAITED = "At the end of what was recorded no rank waited for another.";
const BOX = {width: 268, line: 18, pad: 12, gap: 26, column: 120};

function showWaits(job, processes) {
  const {boxes, arrows} = waitPicture(job, processes), into = section("waits"), longest = longestWait(job);
  if (job.diagnosis.findings.length === 0 && longest < LONG_S) {
    into.append(el("p", {class: "note"}, longest > 0 ? `At the end of what was recorded no rank had waited for another for longer than ${seconds(longest)}.` : NOBODY_WAITED));
    return;
  }
  if (boxes.length === 0) {
    into.append(el("p", {class: "note"}, job.diagnosis.findings.length ? "The boxes show nobody who waits for another rank." : NOBODY_WAITED));
    return;
  }
  place(boxes, arrows);
  into.append(el("p", {class: "lead"}, sentences(boxes, arrows)), drawWaits(boxes, arrows));
  if (job.waits.left_out > 0) into.append(el("p", {class: "note"}, `${plural(job.waits.left_out, "more group")} of ranks ${job.waits.left_out === 1 ? "waits" : "wait"}.`));
}

const longestWait = (job) => Math.max(0, ...job.waits.groups.flatMap((group) => group.waits.map((wait) => wait.for_s ?? 0)));

// boxes: {ranks, lines, culprit}; arrows: {from, to, text}, indices into them.
function waitPicture(job, processes) {
  const first = job.diagnosis.findings[0], culprits = new Set(first ? first.culprits : []);
  if (first && first.kind.endsWith("_mismatch") && first.calls.length > 1) return mismatchPicture(first, culprits);
  if (first && first.kind === "deadlock") return deadlockPicture(first, processes);
  const boxes = job.waits.groups.map((group) => ({ranks: group.ranks, lines: waitLines(job, group.waits), waits: group.waits}));
  const owner = new Map(boxes.flatMap((box, i) => box.ranks.map((rank) => [rank, i])));
  const others = boxes.flatMap((box) => box.waits.map((wait) => wait.others.filter((rank) => !owner.has(rank))));
  for (const ranks of disjoint(others)) {
    ranks.forEach((rank) => owner.set(rank, boxes.length));
    boxes.push({ranks, lines: sinkLines(job, ranks), waits: []});
  }
  if (boxes.length === 0 && first) return slowPicture(first);
  boxes.forEach((box) => { box.culprit = box.ranks.some((rank) => culprits.has(rank)); });
  const arrows = boxes.flatMap((box, from) => unique(box.waits.flatMap((wait) => wait.others.map((rank) => owner.get(rank))))
    .filter((to) => to !== undefined && to !== from).map((to) => ({from, to, text: ""})));
  return {boxes, arrows};
}

const unique = (list) => [...new Set(list)];

// Each waits for the one that it sends to or receives from, or that makes later what this one has made first.
function deadlockPicture(finding, processes) {
  const ranks = finding.culprits.slice(0, 12), of_rank = new Map(ranks.map((rank) => [rank, callsInOrder(finding, rank, processes)]));
  const calls_of = (rank) => of_rank.get(rank);
  const name = (call) => `${call.communicator}#${call.position}`;
  const boxes = ranks.map((rank) => ({ranks: [rank], culprit: true,
    lines: calls_of(rank).slice(0, 4).map((call) => `${call.op} ${call.peer ? `with rank ${call.peer.rank ?? "?"}` : `#${whole(call.position)} of ${communicatorText(call.communicator)}`}`)}));
  const isBefore = (rank, other) => calls_of(rank).some((call, i) => calls_of(other).findIndex((one) => name(one) === name(call)) > i);
  const waits = (rank, other) => rank !== other && (calls_of(rank).some((call) => call.peer && call.peer.rank === other) || isBefore(rank, other));
  const arrows = ranks.flatMap((rank, from) => ranks.flatMap((other, to) => waits(rank, other) ? [{from, to, text: ""}] : []));
  return {boxes, arrows};
}

// Sets of ranks without common ones, each as large as may be.
function disjoint(sets) {
  const seen = new Set();
  return sets.sort((a, b) => a.length - b.length).map((set) => set.filter((rank) => !seen.has(rank) && seen.add(rank))).filter((set) => set.length > 0);
}

function callsInOrder(finding, rank, processes) {
  const process = processes.find((one) => one.rank === rank), calls = finding.calls.filter((call) => call.ranks.includes(rank) && call.op);
  const start = (call) => {
    const [found] = process && !call.peer ? membersAt([process], call.communicator, call.position) : [];
    return found ? process.start[found.i] : 0;
  };
  return calls.sort((a, b) => start(a) - start(b));
}

function mismatchPicture(finding, culprits) {
  const boxes = finding.calls.filter((call) => call.ranks.length > 0).map((call) => ({
    ranks: call.ranks, lines: [call.op ? shortCall(call) : "has not called", `#${call.position} of ${communicatorText(call.communicator)}`, stateText(call.state)],
    culprit: call.ranks.some((rank) => culprits.has(rank)), waits: []}));
  boxes.sort((a, b) => a.culprit - b.culprit);
  const last = boxes.length - 1;
  return {boxes, arrows: boxes.slice(0, last).map((box, from) => ({from, to: last, text: "\u2260"}))};
}

const shortCall = (call) => callText(call).replace(" of the communicator", "");

function slowPicture(finding) {
  if (finding.culprits.length === 0 || finding.victims.length === 0) return {boxes: [], arrows: []};
  const lost = finding.share_lost === null ? "" : `lose ${percent(finding.share_lost)} of each step`;
  return {boxes: [{ranks: finding.victims, lines: ["wait in each step", lost], culprit: false}, {ranks: finding.culprits, lines: [plainKind(finding.kind)], culprit: true}],
    arrows: [{from: 0, to: 1, text: ""}]};
}

function waitLines(job, waits) {
  const lines = waits.slice(0, 2).map((wait) => {
    const where = wait.communicator ? ` of ${communicatorText(wait.communicator)}` : "";
    return wait.what === "join" ? `joining${where.replace(" of", "")}` : wait.what === "end" ? "in its end" : `${wait.op || wait.what} #${whole(wait.position)}${where}`;
  });
  if (waits.length > 2) lines.push(`and ${plural(waits.length - 2, "more wait")}`);
  const longest = Math.max(...waits.map((wait) => wait.for_s ?? -1));
  if (longest >= 0) lines.push(`for ${seconds(longest)}`);
  return lines;
}

// What is known of ranks that wait for nobody.
function sinkLines(job, ranks) {
  const lines = [], of_them = (list) => list.some((rank) => ranks.includes(rank));
  const gone = job.processes.filter((process) => process.gone && of_them(process.ranks));
  if (gone.length > 0) lines.push(gone.length === 1 ? "is gone" : "are gone");
  for (const finding of job.diagnosis.findings) {
    if (!of_them(finding.culprits)) continue;
    lines.push(plainKind(finding.kind));
    const detail = finding.culprit_details.find((one) => ranks.includes(one.rank) && one.where.length > 0);
    if (detail) lines.push(`in ${detail.where[0]}`);
    break;
  }
  if (lines.length === 0) lines.push("not known to wait");
  return lines;
}

function sentences(boxes, arrows) {
  const texts = unique(arrows.map((arrow) => arrow.from)).map((from) => {
    const own = arrows.filter((arrow) => arrow.from === from), others = ranksText(own.flatMap((arrow) => boxes[arrow.to].ranks));
    const who = capital(ranksText(boxes[from].ranks));
    return own[0].text ? `${who} and ${others} do not make the same call.` : `${who} ${boxes[from].ranks.length === 1 ? "waits" : "wait"} for ${others}.`;
  });
  return texts.slice(0, 4).join(" ") + (texts.length > 4 ? ` So do ${plural(texts.length - 4, "other group")}, for others.` : "");
}

// Columns by how far a box is from those who wait for nobody; a cycle on a circle.
function place(boxes, arrows) {
  for (const box of boxes) {
    box.title = ranksText(box.ranks) + (box.ranks.length > 2 ? ` (${whole(box.ranks.length)})` : "");
    box.lines = box.lines.filter(Boolean);
    box.height = 2 * BOX.pad + BOX.line * (1 + box.lines.length);
  }
  const depth = depthsOf(boxes, arrows);
  if (depth) placeInColumns(boxes, depth);
  else placeOnCircle(boxes);
}

// Null where they wait in a cycle.
function depthsOf(boxes, arrows) {
  const depth = boxes.map(() => 0);
  for (let round = 0; round <= boxes.length; ++round) {
    let moved = false;
    for (const {from, to} of arrows)
      if (depth[from] < depth[to] + 1) {
        depth[from] = depth[to] + 1;
        moved = true;
      }
    if (!moved) return depth;
  }
  return null;
}

function placeInColumns(boxes, depth) {
  const deepest = Math.max(...depth), heights = [];
  boxes.forEach((box, i) => {
    const column = deepest - depth[i];
    box.x = column * (BOX.width + BOX.column);
    box.y = heights[column] || 0;
    heights[column] = box.y + box.height + BOX.gap;
  });
  const tallest = Math.max(...heights.filter(Boolean));
  boxes.forEach((box, i) => { box.y += (tallest - heights[deepest - depth[i]]) / 2; });
}

function placeOnCircle(boxes) {
  const radius_y = Math.max(90, boxes.length * 34), radius_x = Math.max(BOX.width * 0.75, radius_y * 1.2);
  boxes.forEach((box, i) => {
    const angle = -Math.PI / 2 + 2 * Math.PI * i / boxes.length;
    box.x = radius_x + radius_x * Math.cos(angle);
    box.y = radius_y + radius_y * Math.sin(angle);
  });
}

function drawWaits(boxes, arrows) {
  const right = Math.max(...boxes.map((box) => box.x)) + BOX.width, below = Math.max(...boxes.map((box) => box.y + box.height));
  const svg = d3.create("svg").attr("class", "waits").attr("role", "img").attr("aria-label", sentences(boxes, arrows))
    .attr("viewBox", `-4 -4 ${right + 8} ${below + 8}`).style("max-width", `${right + 8}px`);
  svg.append("defs").append("marker").attr("id", "head").attr("viewBox", "0 0 10 10").attr("refX", 9).attr("refY", 5)
    .attr("markerWidth", 8).attr("markerHeight", 8).attr("orient", "auto-start-reverse").append("path").attr("d", "M0 0L10 5L0 10z");
  const lines = svg.append("g").selectAll("g").data(arrows).enter().append("g");
  lines.append("path").attr("class", "arrow").attr("d", (arrow) => arrowPath(boxes[arrow.from], boxes[arrow.to])).attr("marker-end", (arrow) => arrow.text ? null : "url(#head)");
  lines.append("text").attr("class", "sign").attr("x", (arrow) => middleOf(boxes, arrow).x).attr("y", (arrow) => middleOf(boxes, arrow).y).text((arrow) => arrow.text);
  const shapes = svg.append("g").selectAll("g").data(boxes).enter().append("g").attr("class", (box) => box.culprit ? "box culprit" : "box")
    .attr("transform", (box) => `translate(${box.x},${box.y})`);
  shapes.append("rect").attr("width", BOX.width).attr("height", (box) => box.height).attr("rx", 6);
  shapes.append("text").attr("class", "title").attr("x", BOX.pad).attr("y", BOX.pad + 13).text((box) => (box.culprit ? "\u25b6 " : "") + box.title);
  shapes.selectAll("text.line").data((box) => box.lines).enter().append("text").attr("class", "line").attr("x", BOX.pad)
    .attr("y", (line, i) => BOX.pad + 13 + BOX.line * (i + 1)).text((line) => line.length > 36 ? `${line.slice(0, 35)}\u2026` : line);
  return svg.node();
}

const middleOf = (boxes, {from, to}) => ({x: (boxes[from].x + BOX.width + boxes[to].x) / 2, y: (boxes[from].y + boxes[from].height / 2 + boxes[to].y + boxes[to].height / 2) / 2 - 6});

function arrowPath(a, b) {
  const ay = a.y + a.height / 2, by = b.y + b.height / 2;
  if (b.x >= a.x + BOX.width) return `M${a.x + BOX.width} ${ay}C${a.x + BOX.width + 60} ${ay} ${b.x - 60} ${by} ${b.x} ${by}`;
  if (b.x + BOX.width <= a.x) return `M${a.x} ${ay}C${a.x - 60} ${ay} ${b.x + BOX.width + 60} ${by} ${b.x + BOX.width} ${by}`;
  const down = by > ay, ax = a.x + BOX.width / 2 + (down ? 20 : -20), bx = b.x + BOX.width / 2 + (down ? 20 : -20);
  return `M${ax} ${down ? a.y + a.height : a.y}L${bx} ${down ? b.y : b.y + b.height}`;
}
