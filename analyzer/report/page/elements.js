// Elements of the page. Text from the job becomes text, never markup.

function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const section = (id) => document.getElementById(id);

function announce(text) {
  section("announce").textContent = text;
}

// rows: of cells, each a text, an element, or {text, class, number}. The first cell of a row is its heading.
function table(caption, headings, rows) {
  const cell = (tag, content, more) => {
    const plain = content === null || typeof content !== "object" || content instanceof Node;
    const {text, number, ...rest} = plain ? {text: content} : content;
    return el(tag, {...rest, ...more, class: [rest.class, number ? "number" : ""].join(" ").trim() || null}, text ?? "");
  };
  return el("div", {class: "table", tabindex: "0", role: "region", "aria-label": caption},
    el("table", {},
      el("caption", {class: "hidden"}, caption),
      el("thead", {}, el("tr", {}, headings.map((heading) => cell("th", heading, {scope: "col"})))),
      el("tbody", {}, rows.map((row) => el("tr", {class: row.class || null},
        (row.cells || row).map((content, i) => i === 0 ? cell("th", content, {scope: "row"}) : cell("td", content)))))));
}

// At most `most` of the items, and a button for the others.
function listed(items, most, make, into) {
  into.append(...items.slice(0, most).map(make));
  if (items.length <= most) return;
  const button = el("button", {type: "button", class: "more"}, `show all ${whole(items.length)}`);
  button.addEventListener("click", () => {
    button.remove();
    into.append(...items.slice(most).map(make));
  });
  into.after(button);
}
