// Steps of the training loop in their parts, who was waited for, and the program's own numbers; with the onset of what
// slows the job.

const PARTS = [["compute_s", "computation", "compute"], ["exposed_s", "communication", "exposed"], ["wait_s", "waiting for others", "waiting"], ["idle_s", "other blocking calls", "idle"]];
const CHART = {width: 1080, height: 230, left: 64, right: 16, top: 22, bottom: 34};
const MOST_BARS = 240;

function showSteps(job) {
  const into = section("steps"), {steps, ranks, metrics, why_none} = job.steps;
  const slow = job.diagnosis.findings.filter((finding) => finding.effect && finding.onset);
  if (steps.length === 0) into.append(el("p", {class: "note"}, `No steps are shown (${why_none || "none were found"}).`));
  else {
    const sum = (key) => steps.reduce((so_far, step) => so_far + Math.max(0, step[key]), 0);
    const all = PARTS.reduce((so_far, [key]) => so_far + sum(key), 0), share = (key) => percent(sum(key) / all);
    const text = `${plural(steps.length, "step")}, the middle one ${seconds(d3.median(steps, (step) => step.duration_s))}: ${PARTS.map(([key, name]) => `${name} ${share(key)}`).join(", ")}.`;
    into.append(el("p", {class: "lead"}, text), partsLegend(),
      el("h3", {}, "By step, medians over the ranks"),
      barChart(binned(steps, "step"), {label: `${text}${slow.map(onsetText).join("")}`, axis: "step", marks: slow.map((finding) => ({at: finding.onset.step, text: `${plainKind(finding.kind)} since step ${whole(finding.onset.step)}`}))}),
      el("h3", {}, "By rank, medians over the steps"),
      barChart(binned(ranks, "rank"), {label: `Parts of a step for each rank. ${lateText(job, ranks)}`, axis: "rank", marks: culpritMarks(job, ranks)}),
      el("p", {class: "note"}, lateText(job, ranks)), stepsTable(steps));
  }
  for (const metric of metrics) into.append(el("h3", {}, `${metric.name}, as the program said it`), lineChart(metric, job.diagnosis.findings));
}

const onsetText = (finding) => ` ${plainKind(finding.kind)} since step ${whole(finding.onset.step)}.`;

function culpritMarks(job, ranks) {
  const known = new Set(ranks.map((one) => one.rank));
  return [...new Set(job.diagnosis.findings.flatMap((finding) => finding.culprits))].filter((rank) => known.has(rank)).slice(0, 8).map((rank) => ({at: rank, text: `\u25bc ${rank}`}));
}

function lateText(job, ranks) {
  if (job.diagnosis.findings.some((finding) => finding.kind === "straggler")) return "";  // which says it already
  const latest = ranks.reduce((most, one) => one.late_s > (most ? most.late_s : 0) ? one : most, null);
  return latest ? `Rank ${latest.rank} came latest to where the others waited: ${seconds(latest.late_s)} after the middle of the ranks.` : "";
}

function partsLegend() {
  return el("ul", {class: "legend", "aria-label": "Parts of a step"}, PARTS.map(([, name, part]) => el("li", {}, el("span", {class: `mark ${part}`}), name)));
}

// At most MOST_BARS: neighbours put together, as their medians.
function binned(items, key) {
  const each = Math.ceil(items.length / MOST_BARS), bins = [];
  for (let i = 0; i < items.length; i += each) {
    const some = items.slice(i, i + each), bin = {first: some[0][key], last: some[some.length - 1][key]};
    for (const [part] of PARTS) bin[part] = d3.median(some, (one) => one[part]);
    bins.push(bin);
  }
  return bins;
}

function frame(label) {
  return d3.create("svg").attr("class", "chart").attr("role", "img").attr("aria-label", label).attr("viewBox", `0 0 ${CHART.width} ${CHART.height}`);
}

function axes(svg, ticks_of_x, y, format) {
  const left = svg.append("g").attr("class", "axis").attr("transform", `translate(${CHART.left},0)`);
  left.call(d3.axisLeft(y).ticks(4).tickFormat(format).tickSize(-(CHART.width - CHART.left - CHART.right)));
  const below = svg.append("g").attr("class", "axis x").attr("transform", `translate(0,${CHART.height - CHART.bottom})`);
  for (const [x, text] of ticks_of_x) below.append("text").attr("x", x).attr("y", 18).attr("text-anchor", "middle").text(text);
}

function markAt(svg, x, text, side) {
  const flip = x > CHART.width * 0.7;
  const mark = svg.append("g").attr("class", "onset").attr("transform", `translate(${x},0)`);
  if (side) mark.append("line").attr("y1", 6).attr("y2", CHART.height - CHART.bottom);
  mark.append("text").attr("x", side ? (flip ? -6 : 6) : 0).attr("y", 14).attr("text-anchor", side ? (flip ? "end" : "start") : "middle").text(text);
}

function barChart(bins, {label, axis, marks}) {
  const svg = frame(label), inner = CHART.width - CHART.left - CHART.right;
  const x = d3.scaleBand().domain(d3.range(bins.length)).range([CHART.left, CHART.left + Math.min(inner, bins.length * 70)]).paddingInner(bins.length > 120 ? 0 : 0.15);
  const sum = (bin) => PARTS.reduce((all, [part]) => all + Math.max(0, bin[part]), 0);
  const y = d3.scaleLinear().domain([0, highest(bins.map(sum)) || 1]).nice().range([CHART.height - CHART.bottom, CHART.top]).clamp(true);
  svg.append("defs").append(() => hatching());
  const every = Math.max(1, Math.ceil(bins.length / 16));
  axes(svg, bins.map((bin, i) => [x(i) + x.bandwidth() / 2, whole(bin.first)]).filter((tick, i) => i % every === 0), y, (value) => seconds(value));
  svg.append("text").attr("class", "name").attr("x", CHART.width - CHART.right).attr("y", CHART.height - 2).attr("text-anchor", "end").text(axis);
  for (const [i, bin] of bins.entries()) {
    let below = 0;
    for (const [part, name, style] of PARTS) {
      const value = Math.max(0, bin[part]);
      if (value > 0) svg.append("rect").attr("class", style).attr("x", x(i)).attr("width", Math.max(0.5, x.bandwidth())).attr("y", y(below + value)).attr("height", y(below) - y(below + value));
      below += value;
    }
    if (below > y.domain()[1]) svg.append("path").attr("class", "higher").attr("d", `M${x(i) + x.bandwidth() / 2 - 4} ${CHART.top - 2}h8l-4 -7z`);
  }
  for (const mark of marks) {
    const i = bins.findIndex((bin) => bin.last >= mark.at);
    if (i >= 0) markAt(svg, x(i) + (axis === "step" ? 0 : x.bandwidth() / 2), mark.text, axis === "step");
  }
  return svg.node();
}

// Single long bars do not flatten all others: they are cut, and marked.
function highest(sums) {
  const most = d3.max(sums), usual = 2 * d3.quantile([...sums].sort(d3.ascending), 0.9);
  return most > 1.5 * usual ? usual : most;
}

// Waiting is told apart without colour.
function hatching() {
  const pattern = d3.create("svg:pattern").attr("id", "hatching").attr("width", 5).attr("height", 5).attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
  pattern.append("rect").attr("width", 5).attr("height", 5).attr("class", "hatch-back");
  pattern.append("line").attr("y2", 5).attr("class", "hatch-line");
  return pattern.node();
}

function lineChart(metric, findings) {
  const points = metric.steps.map((step, i) => ({step, value: metric.values[i]})), numbers = points.filter((one) => one.value !== null);
  const about = findings.filter((finding) => finding.effect && finding.onset && finding.effect.metric === metric.name);
  const ends = numbers.length ? `from ${numbers[0].value.toPrecision(4)} in step ${whole(numbers[0].step)} to ${numbers[numbers.length - 1].value.toPrecision(4)} in step ${whole(numbers[numbers.length - 1].step)}` : "no number";
  const svg = frame(`${metric.name}: ${ends}.${about.map(onsetText).join("")}`);
  const x = d3.scaleLinear().domain(d3.extent(points, (one) => one.step)).range([CHART.left, CHART.width - CHART.right]);
  const y = d3.scaleLinear().domain(d3.extent(numbers, (one) => one.value)).nice().range([CHART.height - CHART.bottom, CHART.top]);
  axes(svg, x.ticks(10).filter(Number.isInteger).map((step) => [x(step), whole(step)]), y, d3.format(".3~g"));
  svg.append("path").attr("class", "curve").attr("d", d3.line().defined((one) => one.value !== null).x((one) => x(one.step)).y((one) => y(one.value))(points));
  svg.append("g").selectAll("path").data(points.filter((one) => one.value === null).slice(0, 50)).enter().append("path").attr("class", "nan")
    .attr("d", (one) => `M${x(one.step) - 4} ${CHART.top + 4}l8 8m0 -8l-8 8`);
  for (const finding of about) markAt(svg, x(finding.onset.step), `${plainKind(finding.kind)} since step ${whole(finding.onset.step)}`, true);
  return svg.node();
}

function stepsTable(steps) {
  const newest = steps.slice(-12), row = (step) => [whole(step.step), ...[step.duration_s, ...PARTS.map(([part]) => step[part])].map((value) => ({text: seconds(value), number: true})),
    {text: step.last < 0 ? "\u2013" : `${step.last}`, number: true}, {text: step.last < 0 ? "\u2013" : seconds(step.late_s), number: true}];
  const number = (text) => ({text, number: true});
  return el("details", {}, el("summary", {}, `The newest ${newest.length} steps as a table`),
    table("Steps", ["step", number("duration"), ...PARTS.map(([, name]) => number(name)), number("last rank"), number("late by")], newest.map(row)));
}
