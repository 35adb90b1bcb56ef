// Dark or light: as the system has it, or as the reader chooses.

const COLOUR_NAMES = ["ink", "soft", "rule", "paper", "culprit", "pending", "collective", "message", "other", "chosen"];
let colours_known = null;

// By name; `pixels` as numbers of a canvas's memory.
function coloursOf(element) {
  if (colours_known) return colours_known;
  const style = getComputedStyle(element), colours = {pixels: {}};
  for (const name of COLOUR_NAMES) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
    const [r, g, b] = colours[name].match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
    colours.pixels[name] = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  }
  colours.pixels.failed = colours.pixels.culprit;
  return colours_known = colours;
}

// `changed` is called when colours are others than before.
function bindTheme(changed) {
  const button = section("theme"), choices = ["system", "dark", "light"], system = matchMedia("(prefers-color-scheme: dark)");
  let at = 0;
  const show = () => {
    const choice = choices[at];
    document.documentElement.setAttribute("data-theme", at > 0 ? choice : system.matches ? "dark" : "light");
    button.textContent = `Colours: ${choice}`;
    button.setAttribute("aria-label", at === 0 ? "Colours: as the system has them" : `Colours: ${choice}`);
    colours_known = null;
    changed();
  };
  button.addEventListener("click", () => {
    at = (at + 1) % choices.length;
    show();
  });
  system.addEventListener("change", show);
  show();
}
