package org.apache.kafka.common.test.junit;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Optional;
import org.mockito.Mockito;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;

/**
 * An interface or a class of Apache Kafka's, which differs from release to release, in front of an object of ours: its
 * methods are those of the object by name and parameters, or else the interface's own. Any other leaves the test out.
 */
final class Stand {
    private Stand() { }

    static <T> T in(Class<T> type, Object ours) {
        if (!type.isInterface()) {
            return Mockito.mock(type, (Answer<Object>) asked ->
                    call(asked.getMock(), asked.getMethod(), asked.getRawArguments(), ours));
        }
        InvocationHandler call = (instance, method, arguments) -> call(instance, method, arguments, ours);
        return type.cast(Proxy.newProxyInstance(Stand.class.getClassLoader(), new Class<?>[] {type}, call));
    }

    private static Object call(Object instance, Method method, Object[] arguments, Object ours) throws Throwable {
        Optional<Method> known = Arrays.stream(ours.getClass().getMethods())
                .filter(each -> each.getName().equals(method.getName()))
                .filter(each -> Arrays.equals(each.getParameterTypes(), method.getParameterTypes()))
                .findAny();
        if (known.isPresent()) {
            known.get().setAccessible(true);
            try {
                return known.get().invoke(ours, arguments);
            } catch (InvocationTargetException failed) {
                throw failed.getCause();
            }
        }
        if (method.isDefault() && Proxy.isProxyClass(instance.getClass())) {
            return InvocationHandler.invokeDefault(instance, method, arguments);
        }
        String where = method.getDeclaringClass().getSimpleName();
        throw new TestAbortedException("it asks for Apache Kafka's own objects: " + where + "." + method.getName());
    }
}
