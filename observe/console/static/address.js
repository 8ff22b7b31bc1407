// What a page has chosen stands in its address behind a question mark: a link, a reload and Back show the same rows.

/** The parts of the address: {path, params}. */
export function parted() {
  const [path, ...rest] = location.hash.replace(/^#\/?/, "").split("?");
  return { path, params: new URLSearchParams(rest.join("?")) };
}

/** One choice, "" for none. */
export const chosen = (name) => parted().params.get(name) ?? "";

/** Changes choices, without a step of the history for each letter that is typed. */
export function choose(changes) {
  const { path, params } = parted();
  for (const [name, value] of Object.entries(changes)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  const text = params.toString();
  history.replaceState(null, "", `#/${path}${text ? `?${text}` : ""}`);
}
