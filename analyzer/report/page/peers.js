// Who sends how much to whom, and who waits for whom in messages: two maps, senders down, receivers across.

const PEERS = {size: 440, left: 44, top: 20, gap: 90, least: 0.5};

function showPeers(job) {
  const {peers} = job, into = section("peers");
  if (peers.fields.length === 0) return into.append(el("p", {class: "note"}, "No message whose two ends are recorded."));
  const rows = peers.fields.map(([from, to, messages, bytes, receiver_s, sender_s]) => ({from, to, messages, bytes, receiver_s, sender_s, waited_s: receiver_s + sender_s}));
  into.append(el("p", {class: "lead"}, longestPeerWait(rows, peers)), peerMaps(rows, peers),
    el("p", {class: "note"}, `Senders stand at the left, receivers at the top${peers.together > 1 ? `, ${peers.together} ranks in each field` : ""}; the darker, the more. ncclwatch stats --by peer prints the numbers.`));
  if (peers.one_ended > 0) into.append(el("p", {class: "note"}, `Of ${plural(peers.one_ended, "message")} only one end is recorded.`));
}

const peerRanks = (place, peers) => peers.together === 1 ? `rank ${place}` : `ranks ${place * peers.together}-${Math.min(peers.ranks, (place + 1) * peers.together) - 1}`;

function longestPeerWait(rows, peers) {
  const longest = d3.greatest(rows, (one) => one.waited_s), bytes = d3.sum(rows, (one) => one.bytes), messages = d3.sum(rows, (one) => one.messages);
  const moved = `${plural(messages, "message")} with ${bytesText(bytes)}.`;
  if (longest.waited_s === 0) return `${moved} No rank waited for another one in them.`;
  const receiver = longest.receiver_s >= longest.sender_s, waits = receiver ? longest.to : longest.from, awaited = receiver ? longest.from : longest.to;
  return `${moved} The longest wait: ${peerRanks(waits, peers)} for ${peerRanks(awaited, peers)} to ${receiver ? "send" : "receive"}, ${seconds(Math.max(longest.receiver_s, longest.sender_s))} in all.`;
}

function peerMaps(rows, peers) {
  const side = Math.ceil(peers.ranks / peers.together), cell = PEERS.size / side, width = 2 * (PEERS.left + PEERS.size) + PEERS.gap;
  const svg = d3.create("svg").attr("class", "chart map peers").attr("role", "img").attr("viewBox", `0 0 ${width} ${PEERS.top + PEERS.size + 34}`)
    .attr("aria-label", "Bytes and waiting between ranks");
  const text = (one) => `${peerRanks(one.from, peers)} to ${peerRanks(one.to, peers)}: ${plural(one.messages, "message")}, ${bytesText(one.bytes)}; receiver waited ${seconds(one.receiver_s)}, sender ${seconds(one.sender_s)}`;
  [["Bytes", (one) => one.bytes], ["Time waited", (one) => one.waited_s]].forEach(([name, value], i) => {
    const map = svg.append("g").attr("transform", `translate(${PEERS.left + i * (PEERS.left + PEERS.size + PEERS.gap)},${PEERS.top})`);
    const most = d3.max(rows, value), opacity = d3.scaleSqrt().domain([0, most || 1]).range([0.04, 1]);
    map.append("rect").attr("class", "frame").attr("width", PEERS.size).attr("height", PEERS.size);
    for (const one of rows)
      map.append("rect").attr("class", i === 0 ? "volume" : "slowdown").attr("x", one.to * cell).attr("y", one.from * cell)
        .attr("width", Math.max(PEERS.least, cell - (cell > 4 ? 1 : 0))).attr("height", Math.max(PEERS.least, cell - (cell > 4 ? 1 : 0)))
        .attr("fill-opacity", opacity(value(one))).append("title").text(text(one));
    const every = Math.ceil(side / 16);
    for (let place = 0; place < side; place += every) {
      map.append("text").attr("x", -6).attr("y", (place + 0.5) * cell + 4).attr("text-anchor", "end").text(place * peers.together);
      map.append("text").attr("x", (place + 0.5) * cell).attr("y", -6).attr("text-anchor", "middle").text(place * peers.together);
    }
    map.append("text").attr("class", "name").attr("x", PEERS.size / 2).attr("y", PEERS.size + 22).attr("text-anchor", "middle")
      .text(`${name}, at most ${i === 0 ? bytesText(most) : seconds(most)}`);
  });
  return svg.node();
}
