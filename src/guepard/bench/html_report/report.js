"use strict";
// Values under the pointer or the arrow keys. Without this, browsers show the zones' titles by themselves.
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);

let shown = null;

function hide() {
  tip.hidden = true;
  if (shown) shown.classList.remove("at");
  shown = null;
}

function show(zone, x, y) {
  if (shown) shown.classList.remove("at");
  shown = zone;
  zone.classList.add("at");
  tip.textContent = zone.says; // text, never markup: names in it may come from a server
  tip.hidden = false;
  const left = x + 14 + tip.offsetWidth > innerWidth ? x - 14 - tip.offsetWidth : x + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 4)) + "px";
}

for (const svg of document.querySelectorAll("figure > svg")) {
  const zones = [...svg.querySelectorAll(".zone")];
  if (!zones.length) continue;
  for (const zone of zones) {
    const title = zone.querySelector("title");
    zone.says = title.textContent;
    title.remove(); // or the browser would show it as well
    zone.addEventListener("pointermove", (event) => show(zone, event.clientX, event.clientY));
  }
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.tabIndex = 0;
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    const at = zones.indexOf(shown) + step;
    const zone = zones[at < -1 ? zones.length - 1 : Math.min(Math.max(at, 0), zones.length - 1)];
    const box = zone.getBoundingClientRect();
    show(zone, box.right, box.top);
  });
}

// On paper everything is open.
const folded = () => document.querySelectorAll("details.run:not([open])");
let opened = [];
addEventListener("beforeprint", () => { opened = [...folded()]; for (const each of opened) each.open = true; });
addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
