"""A backend of Triton's (entry point group triton.backends) whose device is simulated: compiler.py and driver.py.

Never active by itself: tessera.simulate_triton() makes it so, or TRITON_DEFAULT_BACKEND=tessera for a whole process.
"""
