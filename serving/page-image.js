// The photos: chosen, dropped, pasted or taken with the camera.

import { make, ownPath, request } from "./page-service.js";

const LARGE = 900_000; // bytes above which an image is shrunk before it is sent: nginx takes 1 MB unless it is told
const SIZES = [[2048, 0.92], [2048, 0.8], [1600, 0.8], [1024, 0.8]]; // sides in pixels and qualities, tried in turn

const byId = (id) => document.getElementById(id);
const [drop, preview, camera, video] = ["drop", "preview", "camera", "video"].map(byId);
const addresses = new WeakMap(); // kept: the questions about a photo show it, too
let images = [];
let changed = () => {};

/** Returns the photos. */
export const currentImages = () => images;

/** Calls `listener` whenever there are other photos, with "", or with what is wrong with what was dropped. */
export const onImage = (listener) => (changed = listener);

/** Takes other photos, or none. */
export function setImages(blobs) {
  images = blobs;
  const [blob = null, ...others] = blobs;
  showMore(others);
  if (!blob) preview.removeAttribute("src");
  preview.hidden = byId("change").hidden = byId("remove").hidden = !blob;
  byId("drop-text").hidden = Boolean(blob);
  drop.classList.toggle("filled", Boolean(blob));
  changed("");
  if (!blob) return;
  preview.src = addressOf(blob);
  preview.alt = `Your photo${blob.name ? `: ${blob.name}` : ""}`;
}

/** Shows the photos after the first one, each with a button that removes it. */
function showMore(others) {
  byId("more").hidden = !images.length;
  const items = others.map((blob, at) => {
    const remove = make("button", "quiet", "Remove", { type: "button", ariaLabel: `Remove photo ${at + 2}` });
    remove.addEventListener("click", () => setImages(images.filter((one) => one !== blob)));
    return make("li", "", [make("img", "", [], { src: addressOf(blob), alt: `Your photo ${at + 2}: ${blob.name ?? ""}` }), remove]);
  });
  byId("more").querySelector("ul").replaceChildren(...items);
}

function addressOf(blob) {
  if (!addresses.has(blob)) addresses.set(blob, URL.createObjectURL(blob));
  return addresses.get(blob);
}

byId("remove").addEventListener("click", () => setImages(images.slice(1)));
byId("add").addEventListener("click", () => byId("another").click());

/** Returns the address of each photo in this page; empty if it cannot be shown. */
export const imageAddresses = () => images.map((blob, at) => (at === 0 && preview.hidden ? "" : addressOf(blob)));

/** Returns the bytes to send: of a large image a smaller one; one that the browser cannot decode is left as it is. */
export async function bytesToSend(blob) {
  return (await shrunk(blob)).arrayBuffer(); // fails if the file was changed after it was chosen
}

async function shrunk(blob) {
  if (blob.size < LARGE) return blob;
  try {
    const bitmap = await createImageBitmap(blob);
    let smallest = blob;
    for (const [side, quality] of SIZES) {
      const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
      const smaller = await drawn(bitmap, bitmap.width * scale, bitmap.height * scale, quality);
      if (smaller && smaller.size < smallest.size) smallest = smaller;
      if (smallest.size < LARGE) break;
    }
    return smallest;
  } catch {
    return blob;
  }
}

/** Returns a small copy of a photo as a data URL; empty if the browser cannot decode it. */
export async function thumbnail(blob) {
  try {
    const bitmap = await createImageBitmap(blob);
    const scale = Math.min(1, 160 / Math.max(bitmap.width, bitmap.height));
    return (await canvasOf(bitmap, bitmap.width * scale, bitmap.height * scale)).toDataURL("image/jpeg", 0.8);
  } catch {
    return "";
  }
}

async function drawn(source, width, height, quality = 0.92) {
  const canvas = canvasOf(source, width, height);
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", quality));
}

function canvasOf(source, width, height) {
  const canvas = make("canvas", "", [], { width, height });
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  return canvas;
}

preview.addEventListener("error", () => {
  if (!images.length) return;
  preview.hidden = true; // such as HEIC outside of Safari; if it is no image, the service will say so
  byId("drop-text").hidden = false;
  byId("drop-text").querySelector("strong").textContent = images[0].name || "Your photo";
  byId("file-hint").textContent = "This browser cannot show it. You can ask about it all the same.";
});

for (const input of [byId("file"), byId("capture")]) {
  input.addEventListener("change", () => {
    if (input.files.length) setImages([...input.files]);
    input.value = ""; // so that choosing the same file again is a change too
  });
}

byId("another").addEventListener("change", ({ target }) => {
  if (target.files.length) setImages([...images, ...target.files]);
  target.value = "";
});

document.addEventListener("paste", (event) => {
  const pasted = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
  if (pasted.length) setImages(pasted);
  else if (event.clipboardData && !isText(event)) takeAddress(addressIn(event.clipboardData));
});

for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const carried = event.dataTransfer;
    if (!carried || isText(event)) return; // else the browser would leave this page for what is dropped
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind !== "drop") return;
    const folder = carried.items?.[0]?.webkitGetAsEntry?.()?.isDirectory;
    if (folder) changed("This is a folder. Drop photos.");
    else if (carried.files.length) setImages([...carried.files]);
    else takeAddress(addressIn(carried));
  });
}

/** Returns whether what is carried is text for the field that it is over. */
function isText({ target, dataTransfer, clipboardData }) {
  const { types } = dataTransfer ?? clipboardData;
  return Boolean(target.closest?.("textarea, input")) && !types.includes("Files") && !types.includes("text/uri-list");
}

/** Returns the address of what another page or program hands over: of the image in its HTML, else of its link or text. */
function addressIn(carried) {
  const html = new DOMParser().parseFromString(carried.getData("text/html"), "text/html");
  const link = carried.getData("text/uri-list").split(/\r?\n/).find((line) => line && !line.startsWith("#"));
  return html.querySelector("img[src]")?.getAttribute("src") ?? link ?? carried.getData("text/plain").trim();
}

/** Takes the photo at an address if the address holds it or is one of this service; says what to do otherwise. */
async function takeAddress(address) {
  const [, kind, coded] = address.match(/^data:(image\/[^;,]+);base64,(.*)$/s) ?? [];
  try {
    if (coded) return setImages([new Blob([Uint8Array.from(atob(coded), (byte) => byte.charCodeAt(0))], { type: kind })]);
    const path = ownPath(address);
    const response = path && (await request(path));
    if (response?.ok && response.headers.get("content-type").startsWith("image/")) return setImages([await response.blob()]);
  } catch {
    // broken base64, or the service is away
  }
  if (/^(https?|data|blob|file):/i.test(address)) changed("This is an address, not a photo. Save the photo, then drop the file.");
  else changed("There is no photo in this. Drop the file of a photo.");
}

// The camera: live where the browser lets the page have it, else the phone's own camera application

const live = Boolean(navigator.mediaDevices?.getUserMedia);
const coarse = matchMedia("(pointer: coarse)").matches;
byId("shoot").hidden = !live && !coarse;
if (coarse) byId("file-hint").textContent = ""; // a finger neither drops nor pastes

byId("shoot").addEventListener("click", async () => {
  if (!live) return byId("capture").click();
  try {
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    camera.showModal();
  } catch {
    byId("capture").click(); // no camera, or the user said no
  }
});

byId("take").addEventListener("click", async () => {
  if (!video.videoWidth) return; // not yet
  const taken = await drawn(video, video.videoWidth, video.videoHeight);
  setImages([new File([taken], "camera.jpg", { type: "image/jpeg" })]);
  camera.close();
});

camera.addEventListener("close", () => {
  video.srcObject?.getTracks().forEach((track) => track.stop());
  video.srcObject = null;
});
