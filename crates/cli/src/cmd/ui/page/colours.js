// Colours of jobs: neighbours in number differ, and a job has the same colour in all views.

/** Number of colours that the style has. */
const COLOURS = 12;

/** Returns the name of the colour of a job. */
export function colour(job) {
  let mixed = 0;
  for (const digit of String(job)) mixed = (mixed * 10 + Number(digit)) % 6007;
  // 5 and 12 have no common divisor: twelve jobs in a row have twelve colours.
  return `--j${(mixed * 5) % COLOURS}`;
}

/** Returns properties of a style with that colour as `--c`. */
export function painted(job) {
  return { "--c": `var(${colour(job)})` };
}
