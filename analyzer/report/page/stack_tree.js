// Stacks of several ranks as one tree, outermost frame first: what is the same is written once.

function showStacks(job) {
  const into = section("stacks"), stacks = job.stacks.filter((one) => one.frames.length > 0 || one.where.length > 0);
  if (stacks.length === 0) {
    into.append(el("p", {class: "note"}, job.alive ? "Nobody has read stacks yet: `ncclwatch dump` does." : "No stacks were read before the job ended."));
    return;
  }
  const root = {children: new Map(), ranks: []};
  for (const one of stacks) {
    let node = root;
    for (const frame of (one.frames.length > 0 ? one.frames : one.where).slice().reverse()) {
      if (!node.children.has(frame)) node.children.set(frame, {text: frame, children: new Map(), ranks: []});
      node = node.children.get(frame);
      node.ranks.push(one.rank);
    }
  }
  const culprits = new Set(job.diagnosis.findings.flatMap((finding) => finding.culprits));
  const told = stacks.filter((one) => culprits.size === 0 || culprits.has(one.rank)).flatMap((one) => one.state.map((text) => `rank ${one.rank}: ${text}`));
  into.append(el("p", {class: "lead"}, `The thread that matters of ${ranksText(stacks.map((one) => one.rank))}, outermost frame first.`),
    told.length ? el("ul", {class: "states"}, told.slice(0, 12).map((text) => el("li", {}, text))) : "",
    el("div", {class: "tree"}, [...root.children.values()].map((node) => branch(node, 0))));
}

// A chain without a fork is one block.
function branch(node, depth) {
  const chain = [node];
  for (let at = node; at.children.size === 1;) {
    const [next] = at.children.values();
    if (next.ranks.length < at.ranks.length) break;
    chain.push(at = next);
  }
  const last = chain[chain.length - 1], children = [...last.children.values()].sort((a, b) => b.ranks.length - a.ranks.length);
  return el("details", {open: depth < 6},
    el("summary", {}, el("strong", {}, ranksText(node.ranks)), ` ${plural(chain.length, "frame")}`),
    el("ol", {}, chain.map((one) => el("li", {}, el("code", {}, one.text)))),
    children.map((child) => branch(child, depth + 1)));
}
