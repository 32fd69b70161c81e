// HTTP requests to the gateway. A failed one throws an Error whose message is shown to the user.

let onLocked = () => {};

/** Set the function that is called when the gateway no longer accepts this browser's cookie. */
export const setLockedHandler = (handler) => (onLocked = handler);

export const get = (path) => request(path, {});

export const post = (path, value) => request(path, { method: "POST", body: JSON.stringify(value) });

export const patch = (path, value) => request(path, { method: "PATCH", body: JSON.stringify(value) });

export const remove = (path) => request(path, { method: "DELETE" });

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" }, ...options });
  } catch {
    throw new Error("Hermes does not respond.");
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body) return body;
  throw toError(response.status, body);
}

/** Upload a file. Return { done: promise, cancel }. Uses XMLHttpRequest because fetch reports no progress. */
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
      if (request.status >= 200 && request.status < 300 && request.response) resolve(request.response);
      else reject(toError(request.status, request.response));
    });
    request.addEventListener("error", () => reject(new Error("The upload was interrupted.")));
    request.addEventListener("abort", () => reject(new Error("Cancelled.")));
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
}

function toError(status, body) {
  if (status === 401) {
    onLocked();
    return new Error("This page needs a new link.");
  }
  return new Error(body?.problem || `Hermes answered with error ${status}.`);
}
