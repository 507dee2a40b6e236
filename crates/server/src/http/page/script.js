const state = document.getElementById("state");
const live = new EventSource("/api/live");
live.onmessage = ({ data }) => {
  const { clients, commands } = JSON.parse(data);
  state.textContent = `${clients} clients, ${commands} commands`;
};
live.onerror = () => { state.textContent = "The server does not answer."; };
