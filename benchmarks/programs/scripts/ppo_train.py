"""PPO on many poles balanced on carts, simulated on the device: rollout, advantages, updates."""

import torch
from torch import nn

from stepping import changed, device, finish, size, steps

CARTS, HORIZON, EPOCHS, PARTS = size((1024, 32, 2, 4), (16, 4, 1, 2))
if changed("larger-batch"):
    CARTS *= 8


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.policy, self.value = nn.Linear(128, 2), nn.Linear(128, 1)

    def forward(self, state):
        hidden = self.body(state)
        return self.policy(hidden), self.value(hidden).squeeze(-1)


def simulate(state, action):
    """A step of the physics; a pole that fell begins anew."""
    x, speed, angle, turning = state.unbind(1)
    force = torch.where(action == 1, 10.0, -10.0)
    cos, sin = angle.cos(), angle.sin()
    push = (force + 0.05 * turning**2 * sin) / 1.1
    bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    pull = push - 0.05 * bend * cos / 1.1
    after = torch.stack([x + 0.02 * speed, speed + 0.02 * pull,
                         angle + 0.02 * turning, turning + 0.02 * bend], 1)  # fmt: skip
    fallen = (after[:, 0].abs() > 2.4) | (after[:, 2].abs() > 0.21)
    fresh = torch.rand_like(after) * 0.1 - 0.05
    return torch.where(fallen[:, None], fresh, after), fallen


def advantages(rewards, values, fallen, last):
    """Generalised advantages, backwards in time."""
    found, running = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        after = last if t == len(rewards) - 1 else values[t + 1]
        alive = 1 - fallen[t].float()
        running = rewards[t] + 0.99 * after * alive - values[t] + 0.99 * 0.95 * alive * running
        found[t] = running
    return found


def loss_of(agent, states, actions, before, gained, returns):
    """The clipped objective, the value's error, and some entropy."""
    logits, value = agent(states)
    logs = torch.log_softmax(logits, -1)
    ratio = (logs.gather(1, actions[:, None]).squeeze(1) - before).exp()
    gained = (gained - gained.mean()) / (gained.std() + 1e-8)
    clipped = torch.min(ratio * gained, ratio.clamp(0.8, 1.2) * gained).mean()
    return (
        0.5 * (value - returns).pow(2).mean() - clipped + 0.01 * (logs.exp() * logs).sum(1).mean()
    )


def main():
    torch.manual_seed(0)
    agent, state = Agent().to(device()), torch.zeros(CARTS, 4, device=device())
    optimizer = torch.optim.Adam(agent.parameters(), 3e-4, fused=changed("fused-optimizer"))
    compiled = torch.compile if changed("compile") else (lambda function: function)
    step_of, act, advise, objective = map(compiled, (simulate, agent, advantages, loss_of))
    episodes = 0
    for _ in steps(size(24, 4), CARTS * HORIZON):
        kept = []
        with torch.no_grad():
            for _ in range(HORIZON):
                logits, value = act(state)
                logs = torch.log_softmax(logits, -1)
                action = torch.multinomial(logs.exp(), 1).squeeze(1)
                before = logs.gather(1, action[:, None]).squeeze(1)
                new, fallen = step_of(state, action)
                kept.append((state, action, before, value, 1.0 - fallen.float(), fallen))
                state = new
                if not changed("no-item"):
                    episodes += fallen.sum().item()
            states, actions, before, values, rewards, fell = map(torch.stack, zip(*kept))
            gained = advise(rewards, values, fell, act(state)[1])
        flat = [each.flatten(0, 1)
                for each in (states, actions, before, gained, gained + values)]  # fmt: skip
        for _ in range(EPOCHS):
            for part in torch.randperm(CARTS * HORIZON, device=device()).chunk(PARTS):
                loss = objective(agent, *(each[part] for each in flat))
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
    finish(loss.item())


if __name__ == "__main__":
    main()
