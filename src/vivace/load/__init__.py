"""How requests are sent: the closed loop, and the steady window inside it."""
