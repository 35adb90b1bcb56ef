// How far the members of each communicator have come.

const COMMUNICATORS_SHOWN = 12;

function showProgress(job) {
  const into = section("progress"), all = job.communicators.map(progressOf);
  if (all.length === 0) {
    into.append(el("p", {class: "note"}, "No communicator is known."));
    return;
  }
  all.sort((a, b) => (b.behind.length > 0) - (a.behind.length > 0) || b.size - a.size);
  const late = all.filter((one) => one.behind.length > 0).length;
  into.append(el("p", {class: "lead"}, late === 0 ? `In ${all.length === 1 ? "the communicator" : `all ${whole(all.length)} communicators`} every member has come equally far.`
    : `Members have come differently far in ${whole(late)} of ${plural(all.length, "communicator")}.`));
  const row = (one) => [
    `${communicatorText(one.id, one.label)}`, {text: whole(one.size), number: true}, one.counts, one.unseen.length ? `not seen: ${ranksText(one.unseen.filter((rank) => rank >= 0))}` : "",
    {text: one.behind.length ? `\u25b6 ${ranksText(one.behind)}` : "", class: one.behind.length ? "culprit" : null}, strip(one)];
  const tableOf = (list) => table("Communicators", ["communicator", {text: "ranks", number: true}, "collectives called", "unseen", "furthest behind", "by member"], list.map(row));
  const shown = into.appendChild(tableOf(all.slice(0, COMMUNICATORS_SHOWN)));
  if (all.length <= COMMUNICATORS_SHOWN) return;
  const button = el("button", {type: "button", class: "more"}, `show all ${whole(all.length)}`);
  button.addEventListener("click", () => {
    button.remove();
    shown.replaceWith(tableOf(all));
  });
  into.append(button);
}

function progressOf(communicator) {
  const {called, ranks, messages} = communicator, most = Math.max(0, ...called), least = called.length ? Math.min(...called) : 0;
  const sent = messages.reduce((a, b) => a + b, 0);
  const behind = communicator.comparable && least < most ? ranks.filter((rank, i) => called[i] === least) : [];
  const counts = (least === most ? whole(most) : `${whole(least)} to ${whole(most)}`) + (sent > 0 ? `, ${plural(sent, "message")}` : "");
  return {...communicator, behind, counts, most, least};
}

// A bar for each member, from the one furthest behind to the one furthest ahead.
function strip(one) {
  const width = 240, height = 22, count = Math.max(1, one.called.length), each = width / count;
  const span = Math.max(1, one.most - one.least + 2);
  const svg = d3.create("svg").attr("class", "strip").attr("role", "img").attr("width", width).attr("height", height)
    .attr("aria-label", one.least === one.most ? `all members called ${whole(one.most)} collectives` : `members called ${whole(one.least)} to ${whole(one.most)} collectives; ${ranksText(one.behind)} the fewest`);
  const bars = count <= width ? one.called.map((called, i) => [i * each, called]) : d3.range(width).map((x) => [x, Math.min(...one.called.slice(Math.floor(x / each), Math.max(Math.floor((x + 1) / each), Math.floor(x / each) + 1)))]);
  const gap = each > 4 ? 1 : 0;
  svg.selectAll("rect").data(bars).enter().append("rect").attr("class", ([, called]) => called === one.least && one.least < one.most ? "behind" : "ahead")
    .attr("x", ([x]) => x).attr("width", Math.max(1, each - gap))
    .attr("y", ([, called]) => height - Math.max(3, (called - one.least + 1) / span * height)).attr("height", ([, called]) => Math.max(3, (called - one.least + 1) / span * height));
  return svg.node();
}
