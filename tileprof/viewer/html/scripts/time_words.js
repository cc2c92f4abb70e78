// What is said of bars and timelines.

// `250 ns from 450 ns on, warp 0`.
function barTime(bar, row) {
  const from = timeText(bar.begin, 1, Math.max(bar.begin, 1)),
    text = `${format(bar.end - bar.begin, "ns") || "0"} from ${from} on, ${row}`;
  return bar.many ? `${text}; ${format(bar.many.busy, "ns") || "0"} of it busy` : text;
}

// What stands before the name of what a bar is.
function severalText(bar) {
  return bar.many ? `${bar.many.count.toLocaleString("en")} short ones, mostly ` : "";
}

// What was joined to have fewer bars; nothing where all are there.
function joinedText(held) {
  if (!held.many.length) return "";
  const single = held.gap.length - held.many.length,
    joined = held.spans - single;
  return `${joined.toLocaleString("en")} short ones are drawn together, ${single.toLocaleString("en")} one by one`;
}

// Rows without a name belong to the one above them.
function rowName(held, row) {
  let named = row;
  while (named > 0 && !held.rows[named][0]) named -= 1;
  return held.rows[named][0];
}

function howTo() {
  const text =
    "drag, + and −: zoom; < and >: move; Escape: all; arrow keys: from bar to bar; Enter: zoom to it";
  return make("span.quiet", text);
}
