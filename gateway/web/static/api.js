// Requests to the gateway. Every refusal for want of a key goes to one place; every other problem is a sentence.

export class Problem extends Error {}

let onLocked = () => {};

export const whenLocked = (run) => (onLocked = run);

export const get = (path) => ask(path, {});

export const post = (path, value) => ask(path, { method: "POST", body: JSON.stringify(value) });

export const patch = (path, value) => ask(path, { method: "PATCH", body: JSON.stringify(value) });

export const remove = (path) => ask(path, { method: "DELETE" });

async function ask(path, how) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" }, ...how });
  } catch {
    throw new Problem("Hermes does not respond.");
  }
  if (answer.status === 401) {
    onLocked();
    throw new Problem("This page needs a new link.");
  }
  if (!answer.ok) throw new Problem(await problemOf(answer));
  return answer.json();
}

async function problemOf(answer) {
  try {
    return (await answer.json()).problem || `Hermes answered with the error ${answer.status}.`;
  } catch {
    return `Hermes answered with the error ${answer.status}.`;
  }
}

/** Not fetch: only the older way tells how far an upload has come. Returns { done: promise, cancel }. */
export function upload(file, onProgress) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.open("POST", "/api/files");
    request.responseType = "json";
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.setRequestHeader("X-File-Name", encodeURIComponent(file.name || "file"));
    request.upload.addEventListener(
      "progress",
      (event) => event.lengthComputable && onProgress(event.loaded / event.total),
    );
    request.addEventListener("load", () => {
      if (request.status === 401) onLocked();
      if (request.status >= 200 && request.status < 300 && request.response) resolve(request.response);
      else reject(new Problem(request.response?.problem || refusal(request.status)));
    });
    request.addEventListener("error", () => reject(new Problem("The upload was interrupted.")));
    request.addEventListener("abort", () => reject(new Problem("Cancelled.")));
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
}

function refusal(status) {
  if (status === 401) return "This page needs a new link.";
  return status === 413 ? "The file is too large." : `The upload failed (${status}).`;
}
