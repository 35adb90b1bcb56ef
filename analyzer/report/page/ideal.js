// What if nobody were slow: what a step would be like if one rank alone stayed as it was recorded, as a map of the ranks.

const MAP = {cell: 34, least: 6, width: 1080, left: 70, top: 20};
const HOTTEST = 1.5;  // a slowdown that has the full colour

function showIdeal(job) {
  const into = section("ideal"), {ideal, why_none} = job.ideal;
  if (!ideal) return into.append(el("p", {class: "note"}, `Not computed (${why_none}).`));
  into.append(el("p", {class: "lead"}, ideal.verdict), slowdownMap(ideal),
    el("p", {class: "note"}, `Each field is a rank: the darker, the longer a step would be if it alone stayed as recorded and all others took as long as those alike. Means over ${plural(ideal.steps, "step")}; ncclwatch replay --ideal prints the numbers.`),
    slowdownTable("By operation", "operation", ideal.ops.map((one) => [one.op, one.slowdown])),
    ideal.stages.length > 0 ? slowdownTable("By stage", "stage", ideal.stages.map((one) => [`${one.stage}`, one.slowdown])) : "");
}

// Stages below one another, or a square.
function placesOf(ranks) {
  if (ranks.every((one) => one.stage >= 0 && one.replica >= 0)) return ranks.map((one) => ({...one, row: one.stage, column: one.replica}));
  const side = ranks.length <= 16 ? ranks.length : Math.ceil(Math.sqrt(ranks.length));
  return ranks.map((one, i) => ({...one, row: Math.floor(i / side), column: i % side}));
}

function slowdownMap(ideal) {
  const places = placesOf(ideal.ranks), rows = d3.max(places, (one) => one.row) + 1, columns = d3.max(places, (one) => one.column) + 1;
  const cell = Math.max(MAP.least, Math.min(MAP.cell, (MAP.width - MAP.left) / columns)), staged = places[0].stage >= 0;
  const svg = d3.create("svg").attr("class", "chart map").attr("role", "img").attr("viewBox", `0 0 ${MAP.width} ${MAP.top + rows * cell + 8}`)
    .attr("aria-label", `Slowdown by rank. ${ideal.verdict}`);
  const opacity = d3.scaleLinear().domain([1, HOTTEST]).range([0.06, 1]).clamp(true);
  if (staged && cell >= 14) for (let row = 0; row < rows; ++row) svg.append("text").attr("class", "name").attr("x", MAP.left - 8).attr("y", MAP.top + (row + 0.62) * cell).attr("text-anchor", "end").text(`stage ${row}`);
  for (const one of places) {
    const x = MAP.left + one.column * cell, y = MAP.top + one.row * cell;
    const field = svg.append("g").attr("transform", `translate(${x},${y})`);
    field.append("title").text(`rank ${one.rank}: a step would be ${one.slowdown.toFixed(3)} times as long`);
    field.append("rect").attr("class", "slowdown").attr("width", cell - 1).attr("height", cell - 1).attr("fill-opacity", opacity(one.slowdown));
    if (cell >= 24) field.append("text").attr("class", opacity(one.slowdown) > 0.55 ? "on-dark" : null).attr("x", cell / 2).attr("y", cell * 0.62).attr("text-anchor", "middle").text(one.rank);
  }
  return svg.node();
}

function slowdownTable(caption, heading, rows) {
  const number = (text) => ({text, number: true});
  return el("details", {}, el("summary", {}, caption), table(caption, [heading, number("slowdown")], rows.map(([name, slowdown]) => [name, number(slowdown.toFixed(3))])));
}
