// Files to send: a picture drawn here, a small document, a recorded voice note.

const PETALS = ["#d1495b", "#edae49", "#00798c", "#66a182", "#8d6a9f"];

/** A flower, another one each time. */
export function samplePicture() {
  const canvas = document.createElement("canvas");
  canvas.width = 480;
  canvas.height = 320;
  const draw = canvas.getContext("2d");
  const sky = draw.createLinearGradient(0, 0, 0, 320);
  sky.addColorStop(0, "#bfe3ea");
  sky.addColorStop(1, "#f4efd9");
  draw.fillStyle = sky;
  draw.fillRect(0, 0, 480, 320);
  draw.fillStyle = "#7fa86b";
  draw.fillRect(0, 262, 480, 58);
  PETALS.forEach((colour, stem) => flower(draw, 60 + stem * 90 + Math.random() * 20, 110 + Math.random() * 60, colour));
  const asFile = (blob) => new File([blob], "flowers.png", { type: "image/png" });
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(asFile(blob)), "image/png"));
}

function flower(draw, x, y, colour) {
  draw.strokeStyle = "#4d7a4a";
  draw.lineWidth = 6;
  draw.beginPath();
  draw.moveTo(x, y);
  draw.quadraticCurveTo(x + 12, (y + 285) / 2, x, 285);
  draw.stroke();
  draw.fillStyle = colour;
  for (let petal = 0; petal < 6; petal++) {
    const angle = (petal * Math.PI) / 3;
    draw.beginPath();
    draw.ellipse(x + Math.cos(angle) * 22, y + Math.sin(angle) * 22, 20, 13, angle, 0, Math.PI * 2);
    draw.fill();
  }
  draw.fillStyle = "#fbe7a1";
  draw.beginPath();
  draw.arc(x, y, 12, 0, Math.PI * 2);
  draw.fill();
}

export function sampleDocument() {
  const words = "Watering plan\n\nRoses: every second day\nLavender: once a week\nTomatoes: daily, in the morning\n";
  return new File([words], "watering-plan.txt", { type: "text/plain" });
}

export async function sampleVoice() {
  const answer = await fetch("/static/voice.ogg");
  return new File([await answer.blob()], "voice.ogg", { type: "audio/ogg" });
}
